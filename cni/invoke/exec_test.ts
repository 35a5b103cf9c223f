import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { deadlineWhen } from "../../tests/_harness/eventually.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import {
  killIfAlive,
  waitUntilDead,
} from "../../tests/_harness/process_group.ts";
import { CniError } from "../../base/error.ts";
import { deadline } from "../../base/deadline.ts";
import { execPlugin } from "./exec.ts";
import { execInvoker } from "./exec_invoker.ts";
import { whenSuperseded } from "../../tests/_harness/superseded.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const utf8 = new TextEncoder();
const UNSTARTED = "netplugin failed with no error message: fork/exec";
const CONFIG = '{"name":"net1"}';

/** The output of a plugin on both streams. */
interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs an executable with the configuration, or another one. */
async function exec(
  path: string,
  stdin: string = CONFIG,
  env: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Outcome> {
  let stderr = "";
  const onStderr = (text: string): void => void (stderr += text);
  const stdout = await execPlugin(path, {
    env,
    stdin: utf8.encode(stdin),
    onStderr,
    signal,
  }, () => Promise.resolve());
  return { stdout, stderr };
}

Deno.test("execPlugin() returns what the plugin prints", async (t) => {
  using directory = new PluginDirectory();
  // Twice what a pipe holds, several times.
  const large = "x".repeat(1024 * 1024);
  const rows: [string, string, string, Outcome][] = [
    ["nothing", "exec cat > /dev/null", CONFIG, { stdout: "", stderr: "" }],
    [
      "a result, and a log besides",
      `echo '{"ips":[]}'; echo log >&2`,
      CONFIG,
      { stdout: '{"ips":[]}\n', stderr: "log\n" },
    ],
    [
      "an error, if it succeeds",
      `echo '{"code":7,"msg":"potato"}'`,
      CONFIG,
      { stdout: '{"code":7,"msg":"potato"}\n', stderr: "" },
    ],
    [
      "1 MB of log",
      "head -c 1048576 /dev/zero | tr '\\0' x >&2",
      CONFIG,
      { stdout: "", stderr: large },
    ],
    [
      "after the beginning of stdin",
      "exec head -c 5",
      large,
      { stdout: "xxxxx", stderr: "" },
    ],
  ];
  await eachRow(t, rows, async ([, script, stdin, expected]) => {
    assertEquals(await exec(directory.add("plugin", script), stdin), expected);
  });
});

Deno.test("execPlugin() runs the plugin with its path and this environment alone", async () => {
  using directory = new PluginDirectory();
  const path = directory.add(
    "plugin",
    `printf '%s\\0' "$0 $#"; cat /proc/$$/environ`,
  );
  const env = { CNI_COMMAND: "ADD", CNI_ARGS: "", "odd name": "ä\n=;" };
  const { stdout } = await exec(path, CONFIG, env);
  const [self, ...variables] = stdout.split("\0");
  assertEquals(self, `${path} 0`);
  assertEquals(variables.sort(), [
    "",
    "CNI_ARGS=",
    "CNI_COMMAND=ADD",
    "odd name=ä\n=;",
  ]);
});

Deno.test("execPlugin() throws the plugin's error", async (t) => {
  using directory = new PluginDirectory();
  const rows: [
    name: string,
    script: string,
    expected: { code: number; msg: string; details?: string },
  ][] = [
    [
      "without",
      `echo '{"code":100,"msg":"potato","details":""}'`,
      { code: 100, msg: "potato" },
    ],
    ["without a code", `echo '{"msg":"potato"}'`, { code: 0, msg: "potato" }],
    [
      "if a signal ends it, too",
      `echo '{"code":7,"msg":"potato"}'; kill -KILL $$`,
      { code: 7, msg: "potato" },
    ],
  ];
  await eachRow(t, rows, async ([, script, expected]) => {
    const path = directory.add("plugin", `${script}\nexit 3`);
    const error = await assertRejects(() => exec(path), CniError);
    assertEquals(error.toObject("1.1.0"), { cniVersion: "1.1.0", ...expected });
  });
});

Deno.test("execPlugin() tells what is known of a plugin that has no error to show", async (t) => {
  using directory = new PluginDirectory();
  const nothing = "netplugin failed with no error message";
  const rows: [name: string, script: string, msg: string, cause: string][] = [
    [
      "a signal after a log",
      "echo log >&2; kill -SEGV $$",
      'netplugin failed: "log\\n": signal: segmentation fault',
      "signal: segmentation fault",
    ],
    [
      "a real-time signal",
      "kill -34 $$",
      `${nothing}: signal: signal 34`,
      "signal: signal 34",
    ],
  ];
  await eachRow(t, rows, async ([, script, msg, cause]) => {
    const path = directory.add("plugin", script);
    const error = await assertRejects(() => exec(path), CniError);
    assertEquals([error.code, error.message], [999, msg]);
    assertMatch(error.details, /^\/.+\/plugin ended after \d+ ms: /);
    assertStringIncludes(error.details, cause);
  });
});

Deno.test("execPlugin() hands on the log of a plugin that fails", async () => {
  using directory = new PluginDirectory();
  const path = directory.add("plugin", "echo log >&2; exit 1");
  const written: string[] = [];
  await assertRejects(() =>
    execPlugin(path, {
      env: {},
      stdin: new Uint8Array(),
      onStderr: (text) => written.push(text),
    }), CniError);
  assertEquals(written, ["log\n"]);
});

Deno.test("execPlugin() names what it cannot start, and why", async (t) => {
  using directory = new PluginDirectory();
  const rows: [name: string, path: string, why: string][] = [
    ["a directory", directory.path, "permission denied"],
    [
      "a file that may not be executed",
      directory.addFile("plain", "#!/bin/sh\n", 0o644),
      "permission denied",
    ],
    [
      "a script whose interpreter is not there",
      directory.addFile("orphan", "#!/nonexistent\n"),
      "no such file or directory",
    ],
    // A shell would take all of these for scripts, and do what they say.
    [
      "a script without an interpreter",
      directory.addFile("bare", "exit 0\n"),
      "exec format error",
    ],
    ["zeros", directory.addFile("zeros", "\0".repeat(99)), "exec format error"],
  ];
  await eachRow(t, rows, async ([, path, why]) => {
    const error = await assertRejects(() => exec(path), CniError);
    assertEquals(error.code, 999);
    assertEquals(error.message, `${UNSTARTED} ${path}: ${why}`);
  });
});

/**
 * Runs a program while it is open for writing, which the kernel refuses.
 *
 * @param tries Before which one the file is closed
 * @returns The number of pauses, and how it ended
 */
async function execBusy(
  path: string,
  tries: number,
): Promise<{ pauses: number; outcome: unknown }> {
  let stderr = "", pauses = 0;
  using open = new DisposableStack();
  open.use(await Deno.open(path, { write: true }));
  const pause = (): Promise<void> => {
    if (++pauses === tries) open.dispose();
    return Promise.resolve();
  };
  const outcome = await execPlugin(path, {
    env: {},
    stdin: utf8.encode(CONFIG),
    onStderr: (text) => void (stderr += text),
  }, pause).then((stdout) => ({ stdout, stderr }), (error) => error);
  return { pauses, outcome };
}

Deno.test("execPlugin() starts nothing if its call may change nothing", async () => {
  using directory = new PluginDirectory();
  const path = directory.add("plugin", 'echo 1 > "$0.started"');
  await assertRejects(
    () => whenSuperseded(() => exec(path)),
    Error,
    "superseded",
  );
  assertEquals(directory.read("plugin.started"), "");
});

Deno.test("execPlugin() waits for a program that is being written", async (t) => {
  using directory = new PluginDirectory();
  const path = `${directory.path}/plugin`;
  await Deno.copyFile("/bin/cat", path);
  const expected = { stdout: CONFIG, stderr: "" };
  await eachRow(t, [1, 5], async (tries) => {
    const { pauses, outcome } = await execBusy(path, tries);
    assertEquals({ pauses, outcome }, { pauses: tries, outcome: expected });
  }, (tries) => `${tries} times`);
  await t.step("but not for ever", async () => {
    const { pauses, outcome } = await execBusy(path, 6);
    assertEquals(pauses, 5);
    assert(outcome instanceof CniError);
    assertEquals(outcome.message, `${UNSTARTED} ${path}: text file busy`);
  });
  const hopeless: [name: string, path: string][] = [
    ["one that is not there", `${directory.path}/absent`],
    ["text that names no interpreter", directory.addFile("text", "exit 0\n")],
  ];
  await eachRow(t, hopeless, async ([, path]) => {
    const pause = (): Promise<void> => Promise.reject(new Error("it waited"));
    const invocation = {
      env: {},
      stdin: new Uint8Array(),
      onStderr(): void {},
    };
    const error = await assertRejects(
      () => execPlugin(path, invocation, pause),
      CniError,
    );
    assertStringIncludes(error.message, `${UNSTARTED} ${path}: `);
  }, ([name]) => `nor for ${name}`);
});

Deno.test("execPlugin() waits for a program that is not there in full", async () => {
  using directory = new PluginDirectory();
  const path = directory.addFile("plugin", "");
  const pause = async (): Promise<void> => {
    await Deno.writeTextFile(path, "#!/bin/sh\nexec cat\n");
  };
  const stdout = await execPlugin(path, {
    env: {},
    stdin: utf8.encode(CONFIG),
    onStderr(): void {},
  }, pause);
  assertEquals(stdout, CONFIG);
});

/** Scripts of plugins that take too long. */
const SLEEPERS: Readonly<Record<string, string>> = {
  "that has printed a result": "echo '{}'; exec sleep 60",
  "that has closed its output": "exec >&- 2>&-; exec sleep 60",
};

/** Less than what the plugins sleep, in ms. */
const LONG_MS = 30_000;

Deno.test("execPlugin() ends a plugin at its deadline, with all that it started", async (t) => {
  await eachRow(t, Object.entries(SLEEPERS), async ([, script]) => {
    using directory = new PluginDirectory();
    const path = directory.add(
      "plugin",
      script.replace(
        /(exec )?sleep 60/,
        (sleep) => `echo $$ > ${directory.path}/pid; ${sleep}`,
      ),
    );
    const startMs = performance.now();
    const signal = deadlineWhen(() => directory.read("pid").endsWith("\n"));
    const error = await assertRejects(() =>
      execPlugin(path, {
        env: { PATH: "/bin" },
        stdin: utf8.encode(CONFIG),
        onStderr(): void {},
        signal,
      }), CniError);
    const elapsedMs = performance.now() - startMs;
    assert(elapsedMs < LONG_MS, `it took ${elapsedMs} ms`);
    await waitUntilDead(Number(directory.read("pid")));
    assertEquals(
      [error.code, error.message],
      [999, "netplugin failed with no error message: signal: killed"],
    );
    assertMatch(
      error.details,
      /plugin was killed after \d+ ms: the deadline has passed/,
    );
  });
});

Deno.test("execPlugin() ends a plugin that prints without end", async (t) => {
  const rows = [["a group", deadline(LONG_MS)], ["alone", undefined]] as const;
  await eachRow(t, rows, async ([, signal]) => {
    using directory = new PluginDirectory();
    const path = directory.add(
      "plugin",
      `echo $$ > ${directory.path}/pid; yes`,
    );
    const error = await assertRejects(
      () => exec(path, CONFIG, { PATH: "/bin:/usr/bin" }, signal),
      CniError,
    );
    assertEquals([error.code, error.message], [
      999,
      "netplugin failed with no error message: it printed more than 16777216 bytes",
    ]);
    await waitUntilDead(Number(directory.read("pid")));
  });
});

Deno.test("execPlugin() shows the log of a plugin that waits", async () => {
  using directory = new PluginDirectory();
  // It waits until its log has been seen.
  const path = directory.add(
    "plugin",
    `echo waiting >&2; until [ -e "$SEEN" ]; do sleep 0.01; done; echo '{}'`,
  );
  const seen = `${directory.path}/seen`;
  const stdout = await execPlugin(path, {
    env: { PATH: "/bin:/usr/bin", SEEN: seen },
    stdin: utf8.encode(CONFIG),
    onStderr: (text) => Deno.writeTextFileSync(seen, text),
    signal: deadline(LONG_MS),
  });
  assertEquals([stdout, directory.read("seen")], ["{}\n", "waiting\n"]);
});

Deno.test("execPlugin() keeps the beginning and the end of a log", async () => {
  using directory = new PluginDirectory();
  const path = directory.add(
    "plugin",
    "echo begin >&2; head -c 9000000 /dev/zero | tr '\\0' a >&2; " +
      "echo end >&2; echo done",
  );
  const { stdout, stderr } = await exec(path, CONFIG, {
    PATH: "/bin:/usr/bin",
  });
  assertEquals(stdout, "done\n");
  assertStringIncludes(stderr.slice(0, 7), "begin\na");
  assertStringIncludes(stderr, "part of the log is left out");
  assertStringIncludes(stderr.slice(-5), "aend\n");
  assert(stderr.length <= 1024 * 1024, `${stderr.length}`);
});

Deno.test("execPlugin() takes what a plugin printed whose daemon holds its output open", async (t) => {
  using directory = new PluginDirectory();
  const pidFile = `${directory.path}/pid`;
  const rows: [string, timeoutMs: number | undefined, maxMs: number][] = [
    ["without a deadline", undefined, LONG_MS],
    ["with one that does not pass", 60_000, LONG_MS],
    // Otherwise it waits for a second.
    ["with one that passes after the plugin's end", 300, 1300],
  ];
  const daemon = `sleep 60 & echo $! > ${pidFile}`;
  await eachRow(t, rows, async ([, timeoutMs, maxMs]) => {
    const signal = timeoutMs ? deadline(timeoutMs) : undefined;
    const path = directory.add("plugin", `${daemon}; echo '{}'; echo log >&2`);
    const startMs = performance.now();
    const outcome = await exec(path, CONFIG, { PATH: "/bin" }, signal);
    const elapsedMs = performance.now() - startMs;
    const pid = Number(await Deno.readTextFile(pidFile));
    try {
      assertEquals(outcome, { stdout: "{}\n", stderr: "log\n" });
      assert(elapsedMs < maxMs, `it took ${elapsedMs} ms`);
      // It is not the plugin: it may be meant to stay.
      assertEquals((await Deno.stat(`/proc/${pid}`)).isDirectory, true);
    } finally {
      killIfAlive(pid);
    }
  });
  await t.step("of a plugin that fails", async () => {
    const path = directory.add("plugin", `${daemon}; exit 3`);
    await assertRejects(
      () => exec(path, CONFIG, { PATH: "/bin" }),
      CniError,
      "netplugin failed with no error message: exit status 3",
    );
    killIfAlive(Number(await Deno.readTextFile(pidFile)));
  });
});

Deno.test("execInvoker follows CNI_PATH", async (t) => {
  using directory = new PluginDirectory();
  directory.add("plugin", 'echo "$CNI_COMMAND"');
  const invoke = (type: string, path: string): Promise<string> =>
    execInvoker.invoke({
      type,
      env: { CNI_COMMAND: "DEL", CNI_PATH: path },
      stdin: utf8.encode(CONFIG),
      hostNetns: "/proc/self/ns/net",
      onStderr(): void {},
    });
  await t.step("to the plugin", async () => {
    const path = `/nonexistent::${directory.path}`;
    assertEquals(await invoke("plugin", path), "DEL\n");
  });
  const rows: [name: string, type: string, path: string, msg: string][] = [
    [
      "to nothing",
      "none",
      "/a:/b",
      'failed to find plugin "none" in path [/a /b]',
    ],
    ["without directories", "plugin", "", "no paths provided"],
    ["out of no directory", "../sh", "/bin", "invalid plugin name: ../sh"],
  ];
  await eachRow(t, rows, async ([, type, path, msg]) => {
    await assertRejects(() => invoke(type, path), CniError, msg);
  });
});
