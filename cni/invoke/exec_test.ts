import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { PluginFolder } from "../../tests/_harness/plugin_folder.ts";
import { CniError } from "../error.ts";
import { execInvoker, execPlugin, failure } from "./exec.ts";

const utf8 = new TextEncoder();
const CONFIG = '{"name":"net1"}';

/** What a plugin printed on either stream. */
interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs an executable with the configuration, or another one. */
async function exec(
  path: string,
  stdin: string = CONFIG,
  env: Record<string, string> = {},
): Promise<Outcome> {
  let stderr = "";
  const onStderr = (text: string): void => void (stderr += text);
  const stdout = await execPlugin(path, {
    env,
    stdin: utf8.encode(stdin),
    onStderr,
  }, () => Promise.resolve());
  return { stdout, stderr };
}

Deno.test("execPlugin() returns what the plugin prints", async (t) => {
  using folder = new PluginFolder();
  // Twice what a pipe holds, several times.
  const large = "x".repeat(1024 * 1024);
  const rows: [
    name: string,
    script: string,
    stdin: string,
    expected: Outcome,
  ][] = [
    ["its stdin", "exec cat", CONFIG, { stdout: CONFIG, stderr: "" }],
    ["nothing", "exec cat > /dev/null", CONFIG, { stdout: "", stderr: "" }],
    ["garbage", "echo '{{{'", CONFIG, { stdout: "{{{\n", stderr: "" }],
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
    ["1 MB, both ways", "exec cat", large, { stdout: large, stderr: "" }],
    [
      "1 MB of log",
      "head -c 1048576 /dev/zero | tr '\\0' x >&2",
      CONFIG,
      { stdout: "", stderr: large },
    ],
    ["without a look at stdin", "echo a", CONFIG, {
      stdout: "a\n",
      stderr: "",
    }],
    [
      "without a look at 1 MB of stdin",
      "echo a",
      large,
      { stdout: "a\n", stderr: "" },
    ],
    [
      "after it has closed stdin",
      "exec <&-; echo a",
      large,
      { stdout: "a\n", stderr: "" },
    ],
    [
      "after the beginning of stdin",
      "exec head -c 5",
      large,
      { stdout: "xxxxx", stderr: "" },
    ],
  ];
  for (const [name, script, stdin, expected] of rows) {
    await t.step(name, async () => {
      assertEquals(await exec(folder.add("plugin", script), stdin), expected);
    });
  }
});

Deno.test("execPlugin() runs the plugin with its path and this environment alone", async () => {
  using folder = new PluginFolder();
  const path = folder.add(
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
  using folder = new PluginFolder();
  const rows: [
    name: string,
    script: string,
    expected: { code: number; msg: string; details?: string },
  ][] = [
    [
      "with details",
      `echo '{"cniVersion":"1.1.0","code":11,"msg":"later","details":"d"}'`,
      { code: 11, msg: "later", details: "d" },
    ],
    [
      "without",
      `echo '{"code":100,"msg":"potato","details":""}'`,
      { code: 100, msg: "potato" },
    ],
    ["without a code", `echo '{"msg":"potato"}'`, { code: 0, msg: "potato" }],
    [
      "whatever it logs",
      `echo log >&2; echo '{"code":7,"msg":"potato"}'`,
      { code: 7, msg: "potato" },
    ],
    [
      "if a signal ends it, too",
      `echo '{"code":7,"msg":"potato"}'; kill -KILL $$`,
      { code: 7, msg: "potato" },
    ],
  ];
  for (const [name, script, expected] of rows) {
    await t.step(name, async () => {
      const path = folder.add("plugin", `${script}\nexit 3`);
      const error = await assertRejects(() => exec(path), CniError);
      assertEquals(error.toObject("1.1.0"), {
        cniVersion: "1.1.0",
        ...expected,
      });
    });
  }
});

Deno.test("execPlugin() tells what is known of a plugin that has no error to show", async (t) => {
  using folder = new PluginFolder();
  const unparsed = "netplugin failed but error parsing its diagnostic message";
  const rows: [name: string, script: string, msg: string][] = [
    [
      "nothing",
      "exit 3",
      "netplugin failed with no error message: exit status 3",
    ],
    [
      "white space",
      "echo; echo >&2; exit 1",
      "netplugin failed with no error message: exit status 1",
    ],
    [
      "a signal",
      "kill -KILL $$",
      "netplugin failed with no error message: signal: SIGKILL",
    ],
    [
      "a signal after a log",
      "echo log >&2; kill -SEGV $$",
      'netplugin failed: "log": signal: SIGSEGV',
    ],
    [
      "a log",
      "echo 'it is \"broken\"' >&2; exit 1",
      'netplugin failed: "it is \\"broken\\"": exit status 1',
    ],
    ["no JSON", "echo '{{{'; exit 1", `${unparsed} "{{{": exit status 1`],
    ["another JSON", "echo '{}'; exit 2", `${unparsed} "{}": exit status 2`],
    ["null", "echo null; exit 2", `${unparsed} "null": exit status 2`],
    [
      "a code that is none",
      `echo '{"code":"7","msg":"m"}'; exit 1`,
      `${unparsed} "{\\"code\\":\\"7\\",\\"msg\\":\\"m\\"}": exit status 1`,
    ],
    [
      "a code below 0",
      `echo '{"code":-1,"msg":"m"}'; exit 1`,
      `${unparsed} "{\\"code\\":-1,\\"msg\\":\\"m\\"}": exit status 1`,
    ],
    [
      "a result and an error",
      `echo '{}{"code":7,"msg":"m"}'; exit 1`,
      `${unparsed} "{}{\\"code\\":7,\\"msg\\":\\"m\\"}": exit status 1`,
    ],
  ];
  for (const [name, script, msg] of rows) {
    await t.step(name, async () => {
      const path = folder.add("plugin", script);
      const error = await assertRejects(() => exec(path), CniError);
      assertEquals(error.toObject("1.1.0"), {
        cniVersion: "1.1.0",
        code: 999,
        msg,
        details: path,
      });
    });
  }
});

Deno.test("failure() quotes the end of a long text", () => {
  const text = `begin${"x".repeat(1024 * 1024)}end\n`;
  for (
    const streams of [{ stdout: text, stderr: "" }, {
      stdout: "",
      stderr: text,
    }]
  ) {
    const { message } = failure("/plugin", {
      ...streams,
      cause: "exit status 1",
    });
    assertMatch(message, /"…x+end": exit status 1$/);
    assert(message.length < 5000);
  }
});

Deno.test("execPlugin() hands on the log of a plugin that fails", async () => {
  using folder = new PluginFolder();
  const path = folder.add("plugin", "echo log >&2; exit 1");
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
  using folder = new PluginFolder();
  const rows: [name: string, path: string, why: RegExp][] = [
    ["nothing", `${folder.path}/absent`, /No such file|entity not found/],
    ["a folder", folder.path, /Permission denied/],
    [
      "a file that may not be executed",
      folder.addFile("plain", "#!/bin/sh\n", 0o644),
      /Permission denied/,
    ],
    [
      "a script whose interpreter is not there",
      folder.addFile("orphan", "#!/nonexistent\n"),
      /No such file/,
    ],
    // A shell would take all of these for scripts, and do what they say.
    ["an empty file", folder.addFile("empty", ""), /^exec format error$/],
    [
      "a script without an interpreter",
      folder.addFile("bare", "exit 0\n"),
      /^exec format error$/,
    ],
    ["zeros", folder.addFile("zeros", "\0".repeat(99)), /^exec format error$/],
  ];
  for (const [name, path, why] of rows) {
    await t.step(name, async () => {
      const error = await assertRejects(() => exec(path), CniError);
      assertEquals(error.code, 999);
      assertEquals(error.message, `Cannot run plugin "${path}"`);
      assertMatch(error.details, why);
    });
  }
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

Deno.test("execPlugin() waits for a program that is being written", async (t) => {
  using folder = new PluginFolder();
  const path = `${folder.path}/plugin`;
  await Deno.copyFile("/bin/cat", path);
  const expected = { stdout: CONFIG, stderr: "" };
  for (const tries of [1, 5]) {
    await t.step(`${tries} times`, async () => {
      const { pauses, outcome } = await execBusy(path, tries);
      assertEquals({ pauses, outcome }, { pauses: tries, outcome: expected });
    });
  }
  await t.step("but not for ever", async () => {
    const { pauses, outcome } = await execBusy(path, 6);
    assertEquals(pauses, 5);
    assert(outcome instanceof CniError);
    assertEquals(outcome.message, `Cannot run plugin "${path}"`);
    assertStringIncludes(outcome.details, "Text file busy");
  });
  await t.step("nor for one that is not", async () => {
    const absent = `${folder.path}/absent`;
    const pause = (): Promise<void> => Promise.reject(new Error("it waited"));
    const invocation = {
      env: {},
      stdin: new Uint8Array(),
      onStderr(): void {},
    };
    const error = await assertRejects(
      () => execPlugin(absent, invocation, pause),
      CniError,
    );
    assertEquals(error.message, `Cannot run plugin "${absent}"`);
  });
});

Deno.test("execPlugin() waits for a program that is not there in full", async () => {
  using folder = new PluginFolder();
  const path = folder.addFile("plugin", "");
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

Deno.test("execInvoker follows CNI_PATH", async (t) => {
  using folder = new PluginFolder();
  folder.add("plugin", 'echo "$CNI_COMMAND"');
  const invoke = (type: string, path: string): Promise<string> =>
    execInvoker.invoke({
      type,
      env: { CNI_COMMAND: "DEL", CNI_PATH: path },
      stdin: utf8.encode(CONFIG),
      hostNetns: "/proc/self/ns/net",
      onStderr(): void {},
    });
  await t.step("to the plugin", async () => {
    const path = `/nonexistent::${folder.path}`;
    assertEquals(await invoke("plugin", path), "DEL\n");
  });
  const rows: [name: string, type: string, path: string, msg: string][] = [
    [
      "to nothing",
      "none",
      "/a:/b",
      'failed to find plugin "none" in path [/a /b]',
    ],
    ["without folders", "plugin", "", "no paths provided"],
    ["out of no folder", "../sh", "/bin", "invalid plugin name: ../sh"],
  ];
  for (const [name, type, path, msg] of rows) {
    await t.step(name, async () => {
      await assertRejects(() => invoke(type, path), CniError, msg);
    });
  }
});
