import {
  assertEquals,
  assertMatch,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import * as z from "zod/mini";
import { asModule, moduleCommand } from "../tests/_harness/as_module.ts";
import {
  assertFailure,
  CONFIG,
  CURRENT,
  current,
  ENV,
  OPERATIONS,
  recorder,
  run,
  runCommand,
  SILENT,
} from "../tests/_harness/recorder.ts";
import { OWN_NETNS } from "../tests/_harness/call_context.ts";
import { rootTest } from "../testing/capabilities.ts";
import { importFlags } from "../scripts/import_flags.ts";
import { Cidr } from "../net/cidr.ts";
import { type Command, COMMANDS } from "./call/args.ts";
import type { Environment } from "../base/process/environment.ts";
import { CniError } from "../base/error.ts";
import type { Invocation, Invoker } from "./call/context.ts";
import type { Call, Plugin } from "./plugin.ts";
import { emptyResult, type Result } from "./result/result.ts";
import { netConf } from "./config/types.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const utf8 = new TextEncoder();

testRows(
  "dispatch() refuses a wrong name or version for every command",
  COMMANDS,
  async (command) => {
    const rows: [config: object, code: number, msg: string][] = [
      [{ name: "te%%st" }, 7, "invalid characters found in network name"],
      [
        { cniVersion: 5 },
        6,
        "decoding version from network config: cniVersion: expected a string",
      ],
    ];
    for (const [config, code, msg] of rows) {
      const { plugin, calls } = current();
      const outcome = await runCommand(plugin, command, {
        ...CURRENT,
        ...config,
      });
      assertFailure(outcome, { code, msg });
      assertEquals(calls, []);
    }
  },
);

Deno.test("dispatch() reads the configuration before it refuses the command", async () => {
  const { plugin } = recorder();
  assertFailure(await runCommand(plugin, "NOPE", "{{{"), { code: 6 });
});

Deno.test("dispatch() shows what an operation throws", async (t) => {
  const typed = new CniError(1234, "potato", { details: "fried" });
  const rows: [name: string, error: unknown, expected: unknown][] = [
    ["a typed error", typed, { code: 1234, msg: "potato", details: "fried" }],
    ["any other error", new Error("potato"), { code: 999, msg: "potato" }],
    ["a text", "potato", { code: 999, msg: "potato" }],
    ["undefined", undefined, { code: 999, msg: "unknown error" }],
    [
      "a typed error, wrapped",
      new Error("Cannot cook", {
        cause: new Error("no fire", { cause: typed }),
      }),
      { code: 1234, msg: "potato", details: "Cannot cook: no fire: fried" },
    ],
  ];
  for (const [name, error, expected] of rows) {
    await eachRow(t, ["throws", "rejects"], async (how) => {
      for (const command of COMMANDS) {
        const fail = (): never | Promise<never> => {
          if (how === "throws") throw error;
          return Promise.reject(error);
        };
        const { plugin } = current(
          Object.fromEntries(OPERATIONS.map((name) => [name, fail])),
        );
        const outcome = await runCommand(plugin, command, CURRENT);
        assertEquals(outcome.json, {
          cniVersion: "1.1.0",
          ...expected as object,
        });
        assertEquals(outcome.exitCode, 1);
      }
    }, (how) => `${name}: ${how}`);
  }
});

testRows("dispatch() stamps errors with a known version", [
  ["0.2.0", "0.2.0"],
  ["1.0.0", "1.0.0"],
  ["1.1.0", "1.1.0"],
  [undefined, "0.1.0"],
  ["9.8.7", "1.1.0"],
  ["junk", "1.1.0"],
], async ([cniVersion, expected]: [string | undefined, string]) => {
  const { plugin } = recorder({ versions: [] });
  const outcome = await runCommand(plugin, "ADD", { ...CONFIG, cniVersion });
  assertEquals(outcome.json.cniVersion, expected);
});

Deno.test("dispatch() compares the sandbox with the plugin's own namespace on ADD and DEL only", async (t) => {
  const own = { CNI_NETNS: OWN_NETNS };
  const rows: [Command, Environment][] = [
    ["GC", own],
    ["STATUS", own],
    ["ADD", { CNI_NETNS: "/proc/self/ns/mnt" }],
  ];
  await eachRow(t, rows, async ([command, env]) => {
    const { plugin } = current({ add: () => emptyResult() });
    const all = { ...ENV, CNI_COMMAND: command, ...env };
    assertEquals((await run(plugin, all, CURRENT)).exitCode, 0);
  });
  await t.step("an error of DEL comes first", async () => {
    const { plugin } = current({
      del: () => {
        throw new CniError(100, "busy");
      },
    });
    const env = { ...ENV, ...own, CNI_COMMAND: "DEL" };
    assertFailure(await run(plugin, env, CURRENT), { code: 100, msg: "busy" });
  });
});

const RESULT: Result = {
  ...emptyResult(),
  interfaces: [{ name: "eth0", sandbox: "/proc/0/ns/net" }],
  ips: [{ interface: 0, address: Cidr.parse("10.1.2.3/24") }],
};

Deno.test("dispatch() prints the result of ADD in the configuration's version", async (t) => {
  const address = "10.1.2.3/24";
  const link = { name: "eth0", sandbox: "/proc/0/ns/net" };
  const rows: [cniVersion: string | undefined, expected: unknown][] = [
    [undefined, { cniVersion: "0.1.0", ip4: { ip: address }, dns: {} }],
    ["0.2.0", { cniVersion: "0.2.0", ip4: { ip: address }, dns: {} }],
    ["0.4.0", {
      cniVersion: "0.4.0",
      interfaces: [link],
      ips: [{ version: "4", interface: 0, address }],
      dns: {},
    }],
    ["1.1.0", {
      cniVersion: "1.1.0",
      interfaces: [link],
      ips: [{ address, interface: 0 }],
    }],
  ];
  await eachRow(t, rows, async ([cniVersion, expected]) => {
    const { plugin } = current({ add: () => Promise.resolve(RESULT) });
    const outcome = await runCommand(plugin, "ADD", { ...CONFIG, cniVersion });
    assertEquals(outcome.json, expected);
    assertEquals(outcome.stdout, JSON.stringify(expected, null, 4));
    assertEquals([outcome.exitCode, outcome.stderr], [0, ""]);
  });
});

Deno.test("dispatch() prints nothing for what other operations return", async (t) => {
  const operations = OPERATIONS.map((name) => [name, () => RESULT]);
  const { plugin } = current(Object.fromEntries(operations));
  for (const command of COMMANDS.filter((command) => command !== "ADD")) {
    await t.step(command, async () => {
      assertEquals(await runCommand(plugin, command, CURRENT), SILENT);
    });
  }
});

Deno.test("dispatch() undoes an ADD whose result the version cannot express", async (t) => {
  const config = { ...CONFIG, cniVersion: "0.2.0" };
  const failure = { code: 1, msg: "cannot convert: no valid IP addresses" };
  await t.step("by DEL", async () => {
    const { plugin, calls } = current({ add: () => emptyResult() });
    assertFailure(await runCommand(plugin, "ADD", config), failure);
    assertEquals(calls.map(([operation]) => operation), ["add", "del"]);
  });
  await t.step("as far as DEL can", async () => {
    const { plugin } = current({
      add: () => emptyResult(),
      del: () => Promise.reject(new CniError(100, "busy")),
    });
    const outcome = await runCommand(plugin, "ADD", config);
    assertFailure(outcome, failure);
    assertMatch(
      outcome.stderr,
      /^level=error .*msg="Cannot undo ADD" error=busy\n$/,
    );
  });
  await t.step("as far as there is a DEL", async () => {
    const { del: _, ...plugin } = current({ add: () => emptyResult() }).plugin;
    assertFailure(await runCommand(plugin, "ADD", config), failure);
  });
});

Deno.test("dispatch() does without wrong keys on tear-down only", async (t) => {
  const config = { ...CURRENT, mtu: "big", prevResult: 5 };
  await eachRow(t, COMMANDS, async (command) => {
    const { plugin, calls } = current({
      configSchema: () => netConf({ mtu: z.optional(z.int()) }),
    });
    const outcome = await runCommand(plugin, command, config);
    if (command === "DEL" || command === "GC") {
      assertEquals(outcome.exitCode, 0);
      assertEquals<unknown>(calls.map(([, { config }]) => config), [CURRENT]);
      for (const problem of ["mtu: ", "prevResult: "]) {
        assertStringIncludes(outcome.stderr, problem);
      }
    } else {
      assertFailure(outcome, { code: 7 });
      assertEquals(calls, []);
    }
  });
});

Deno.test("dispatch() decodes prevResult when it is looked at", async (t) => {
  const look = (call: Call): Result => call.prevResult ?? emptyResult();
  const prevResult = { ips: [{ address: "10.1.2.3/24" }] };
  await t.step("in the configuration's version if it names none", async () => {
    const { plugin } = current({ add: look });
    const config = { ...CURRENT, prevResult };
    const outcome = await runCommand(plugin, "ADD", config);
    assertEquals(outcome.json, { cniVersion: "1.1.0", ...prevResult });
  });
  await t.step("once", async () => {
    const { plugin } = current({
      add(call): Result {
        assertStrictEquals(call.prevResult, call.prevResult);
        return look(call);
      },
    });
    const config = { ...CURRENT, prevResult };
    assertEquals((await runCommand(plugin, "ADD", config)).exitCode, 0);
  });
  await t.step("absent", async () => {
    const { plugin } = current({ add: look });
    const outcome = await runCommand(plugin, "ADD", CURRENT);
    assertEquals(outcome.json, { cniVersion: "1.1.0" });
  });
  const foreign = { ...CURRENT, prevResult: { cniVersion: "0.2.0" } };
  await t.step("of another family", async () => {
    const { plugin } = current({ add: look });
    assertFailure(await runCommand(plugin, "ADD", foreign), { code: 1 });
  });
  await t.step("not at all if nobody looks", async () => {
    const { plugin } = current({ add: () => emptyResult() });
    assertEquals((await runCommand(plugin, "ADD", foreign)).exitCode, 0);
  });
});

Deno.test("dispatch() waits for a schema that is loaded", async () => {
  const { plugin, calls } = current({
    configSchema: () => Promise.resolve(netConf({ mtu: z.optional(z.int()) })),
  });
  assertFailure(await runCommand(plugin, "ADD", { ...CURRENT, mtu: "big" }), {
    code: 7,
  });
  assertEquals(calls, []);
});

Deno.test("dispatch() decodes the valid attachments when they are looked at", async (t) => {
  const key = "cni.dev/valid-attachments";
  const gc = async (config: object, look: boolean): Promise<unknown[]> => {
    const seen: unknown[] = [];
    const { plugin } = current({
      gc: (call) => void (look && seen.push(call.validAttachments)),
    });
    const { exitCode, json } = await runCommand(plugin, "GC", {
      ...CURRENT,
      ...config,
    });
    return exitCode === 0 ? seen : [json.code];
  };
  await t.step("some", async () => {
    const list = [{ containerID: "c", ifname: "eth0" }];
    assertEquals(await gc({ [key]: list }, true), [[
      { containerId: "c", ifName: "eth0" },
    ]]);
  });
  await t.step("none", async () => {
    assertEquals(await gc({ [key]: [] }, true), [[]]);
  });
  await t.step("not said", async () => {
    assertEquals(await gc({}, true), [undefined]);
  });
  await t.step("malformed: nothing may be taken for invalid", async () => {
    assertEquals(await gc({ [key]: [{}] }, true), [7]);
  });
  await t.step("malformed, and nobody looks", async () => {
    assertEquals(await gc({ [key]: [{}] }, false), []);
  });
});

Deno.test("dispatch() hands the result over where the printed one holds all of it", async (t) => {
  const rows: [Command, string, Result, Result[]][] = [
    ["ADD", "1.1.0", RESULT, [RESULT]],
    ["ADD", "1.0.0", RESULT, [RESULT]],
    ["ADD", "0.4.0", RESULT, []],
    ["ADD", "0.2.0", RESULT, []],
    ["ADD", "0.2.0", emptyResult(), []],
    ["DEL", "1.1.0", RESULT, []],
  ];
  for (const [command, cniVersion, result, expected] of rows) {
    const size = result === RESULT ? "" : ", empty";
    await t.step(`${command} ${cniVersion}${size}`, async () => {
      const seen: Result[] = [];
      const { plugin } = current({ add: () => result });
      await runCommand(plugin, command, { ...CONFIG, cniVersion }, {
        onResult: (value) => seen.push(value),
      });
      assertEquals(seen, expected);
    });
  }
});

/** Writes down what is delegated; answers with an address. */
function recordingInvoker(): { invoker: Invoker; invocations: Invocation[] } {
  const invocations: Invocation[] = [];
  const invoker: Invoker = {
    invoke(invocation): Promise<string> {
      invocations.push(invocation);
      invocation.onStderr("from the delegate\n");
      return Promise.resolve('{"ips":[{"address":"10.1.2.3/24"}]}');
    },
  };
  return { invoker, invocations };
}

Deno.test("dispatch() lets a plugin delegate with the bytes that it was given", async (t) => {
  const text = ` {"cniVersion":"1.1.0","name":"a", "ipam":{"type":"ipam"},
    "big":12345678901234567890,"mtu":1.50e3}\n`;
  const bytes = utf8.encode(text);
  const stdin = (): Uint8Array => bytes;
  await t.step("to the IPAM plugin", async () => {
    const { invoker, invocations } = recordingInvoker();
    const { plugin } = current({ add: (call) => call.ipam.add() });
    const outcome = await runCommand(plugin, "ADD", "", { stdin, invoker });
    assertEquals(outcome.json.ips, [{ address: "10.1.2.3/24" }]);
    assertEquals(outcome.stderr, "from the delegate\n");
    const [invocation] = invocations;
    assertEquals([invocations.length, invocation?.type], [1, "ipam"]);
    assertStrictEquals(invocation?.stdin, bytes);
    assertEquals(invocation.env, { ...ENV, CNI_COMMAND: "ADD" });
    assertEquals(invocation.hostNetns, OWN_NETNS);
  });
  await t.step("to any other, by any command", async () => {
    const { invoker, invocations } = recordingInvoker();
    const { plugin } = current({
      add: async (call) => {
        await call.delegate("other").del();
        return emptyResult();
      },
    });
    await runCommand(plugin, "ADD", "", { stdin, invoker });
    const [invocation] = invocations;
    assertEquals(invocation?.type, "other");
    assertEquals(invocation?.env, { ...ENV, CNI_COMMAND: "DEL" });
  });
});

Deno.test("dispatch() hands log lines on as they come", async () => {
  const written: string[] = [];
  const { plugin } = current({
    del(call): void {
      call.log.info("first");
      assertEquals(written.length, 1);
      call.log.warn("second");
    },
  });
  const { stderr } = await runCommand(plugin, "DEL", CURRENT, {
    onStderr: (text) => written.push(text),
  });
  const common = "plugin=test command=DEL containerId=some-container-id " +
    "ifName=eth0 network=skel-test";
  assertEquals(written, [
    `level=info ${common} msg=first\n`,
    `level=warn ${common} msg=second\n`,
  ]);
  assertEquals(stderr, written.join(""));
});

/** How a process ended. */
interface Ending {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const ROOT = new URL("..", import.meta.url);

/** An environment in which ptp looks for its IPAM plugin and does nothing else. */
const PROCESS_ENV = { ...ENV, CNI_COMMAND: "STATUS" };

/** The command that runs ptp as a process. */
async function ptpCommand(): Promise<[string, ...string[]]> {
  const flags = await importFlags();
  const script = `import { runMain } from "${ROOT}cni/skel.ts";
    import { ptp } from "${ROOT}plugins/ptp/plugin.ts";
    runMain(ptp);`;
  return [Deno.execPath(), "run", "-A", ...flags, asModule(script)];
}

/**
 * Runs ptp by a shell, which can do to environment and streams what Deno
 * cannot.
 *
 * @param script Runs `"$@"`; `$STDIN` is a file with the configuration
 */
async function runPtp(script: string, stdin: string): Promise<Ending> {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(file, stdin);
    const { code, stdout, stderr } = await new Deno.Command("sh", {
      args: ["-c", script, "sh", ...await ptpCommand()],
      cwd: ROOT,
      env: { ...PROCESS_ENV, STDIN: file },
    }).output();
    const decode = (bytes: Uint8Array): string =>
      new TextDecoder().decode(bytes);
    return { code, stdout: decode(stdout), stderr: decode(stderr) };
  } finally {
    await Deno.remove(file);
  }
}

Deno.test("runMain() answers by one error document, whatever it is run with", async (t) => {
  const config = JSON.stringify({ ...CURRENT, ipam: { type: "none" } });
  const pad = "a".repeat(10 * 1024 * 1024);
  const reached = { code: 999, msg: /failed to find plugin "none"/ };
  const rows: [string, string, string, { code: number; msg: RegExp }][] = [
    ["stdin without a line feed", '"$@" < "$STDIN"', config, reached],
    ["stdin with one", '"$@" < "$STDIN"', `${config}\n`, reached],
    [
      "10 MB of stdin",
      'cat "$STDIN" | "$@"',
      config.replace("{", `{"pad":"${pad}",`),
      reached,
    ],
    [
      "a variable that is not UTF-8",
      'env "X=$(printf "\\377")" "$@" < "$STDIN"',
      config,
      reached,
    ],
    [
      "a variable whose name is not UTF-8",
      'env "$(printf "X\\377")=1" "$@" < "$STDIN"',
      config,
      reached,
    ],
    [
      "an interface name that is not UTF-8",
      'env CNI_COMMAND=ADD "CNI_IFNAME=$(printf "\\377")" "$@" < "$STDIN"',
      config,
      { code: 4, msg: /\[CNI_IFNAME\] missing/ },
    ],
    ["no stdin", '"$@" <&-', "", { code: 6, msg: /it is empty/ }],
    ["a directory as stdin", '"$@" < /', "", {
      code: 5,
      msg: /Is a directory/,
    }],
    ["no stderr", '"$@" < "$STDIN" 2>&-', config, reached],
  ];
  await eachRow(t, rows, async ([, script, stdin, expected]) => {
    const { code, stdout, stderr } = await runPtp(script, stdin);
    assertEquals([code, stderr], [1, ""]);
    const error = JSON.parse(stdout);
    assertEquals(error.code, expected.code, stdout);
    assertMatch(error.msg, expected.msg);
  });
});

Deno.test("runMain() tells by its exit status that nobody got the answer", async (t) => {
  await t.step("a full disk", async () => {
    const script = 'CNI_COMMAND=VERSION "$@" > /dev/full';
    const { code, stderr } = await runPtp(script, "");
    assertEquals(code, 1);
    assertMatch(stderr, /^Cannot write to stdout: No space left .*\n$/);
  });
  await t.step("a reader that is gone", async () => {
    const [path, ...args] = await ptpCommand();
    const child = new Deno.Command(path, {
      args,
      cwd: ROOT,
      env: PROCESS_ENV,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    await child.stdout.cancel();
    const writer = child.stdin.getWriter();
    await writer.write(utf8.encode(JSON.stringify(CURRENT)));
    await writer.close();
    const stderr = await new Response(child.stderr).text();
    assertEquals((await child.status).code, 1);
    assertMatch(stderr, /^Cannot write to stdout: Broken pipe .*\n$/);
  });
  await t.step("but not that nobody got the log", async () => {
    const script = 'CNI_COMMAND= "$@" 2> /dev/full';
    assertEquals((await runPtp(script, "")).code, 0);
  });
});

/** Runs a plugin with this ADD as a process, which it does not wait for itself. */
async function runAdd(add: string): Promise<Ending> {
  const modules = Object.entries({
    skel: "skel.ts",
    types: "config/types.ts",
    result: "result/result.ts",
  }).map(([name, path]) =>
    `import * as ${name} from "${new URL(path, import.meta.url)}";`
  );
  const program = `${modules.join("\n")}
    skel.runMain({ name: "test", versions: ["1.1.0"], add: ${add},
      configSchema: () => types.netConf({}) });`;
  const flags = await importFlags();
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", ...flags, asModule(program)],
    cwd: ROOT,
    env: { ...ENV, CNI_COMMAND: "ADD" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(utf8.encode(JSON.stringify(CURRENT)));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  const [out = "", err = ""] = [stdout, stderr]
    .map((bytes) => new TextDecoder().decode(bytes));
  return { code, stdout: out, stderr: err };
}

Deno.test("runMain() keeps what a plugin says to the console out of its answer", async () => {
  const { code, stdout, stderr } = await runAdd(`() => {
    console.log("found %d links", 3);
    return result.emptyResult();
  }`);
  assertEquals([code, JSON.parse(stdout)], [0, { cniVersion: "1.1.0" }]);
  assertEquals(stderr, "found 3 links\n");
});

Deno.test("runMain() does not succeed if the plugin never comes to an end", async () => {
  const { code, stdout } = await runAdd("() => new Promise(() => {})");
  assertEquals([code, stdout], [1, ""]);
});

Deno.test("runMain() prints a result that is larger than a pipe", async () => {
  const { code, stdout } = await runAdd(`() => ({
    ...result.emptyResult(),
    interfaces: Array.from({ length: 9999 }, (_, i) => ({ name: "eth" + i })),
  })`);
  assertEquals([code, JSON.parse(stdout).interfaces.length], [0, 9999]);
});

testRows("VERSION declares REPAIR only to those who ask", [
  ["describes itself", { answerTools: () => Promise.resolve({}) }],
  ["does not", {}],
], async ([, more]: [string, Partial<Plugin>]) => {
  const plugin = { ...current().plugin, ...more };
  const env = { CNI_COMMAND: "VERSION" };
  const { json: plain } = await run(plugin, env, "");
  const asked = { ...env, CNI_TOOL_ASKS: "commands" };
  const { json } = await run(plugin, asked, "");
  assertEquals(Object.keys(plain), ["cniVersion", "supportedVersions"]);
  assertEquals(json, { ...plain, commands: ["REPAIR"] });
});

Deno.test("VERSION does not wait for a stdin that stays open", async () => {
  const script = `
    import { readStdinSoon } from "${
    import.meta.resolve("../base/process/stdio.ts")
  }";
    console.log((await readStdinSoon()).length);
    Deno.exit(0);`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", script],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode("{}"));
  assertEquals(await new Response(child.stdout).text(), "2\n");
  await child.status;
  await writer.abort().catch(() => {});
});

rootTest(
  "a plugin in the wrong namespace prints one error, and undoes nothing",
  async () => {
    const url = (path: string): string => new URL(path, import.meta.url).href;
    const directory = await Deno.makeTempDir();
    const config = JSON.stringify({ ...CONFIG, cniVersion: "1.0.0" });
    const script = `
    import { runMain } from "${url("skel.ts")}";
    import { Rollback } from "${url("../base/rollback.ts")}";
    import { netConf } from "${url("config/types.ts")}";
    import { inNetns, NetNs } from "${url("../ffi/netns.ts")}";
    import { dropCapabilities } from "${
      url("../tests/_harness/drop_capabilities.ts")
    }";
    const mark = (name) => Deno.writeTextFileSync("${directory}/" + name, "");
    // As of spans, which would be posted from the wrong namespace.
    Deno.exit = () => mark("exit hook");
    const plugin = {
      name: "lost",
      versions: ["1.0.0"],
      configSchema: async () => netConf({}),
      async add(call) {
        await using rollback = new Rollback(call.log);
        rollback.onFailure("undo", () => mark("undone"));
        using netns = NetNs.create();
        try { inNetns(netns, dropCapabilities); } catch { mark("caught"); }
        mark("continued");
      },
    };
    const stdin = () => new TextEncoder().encode(${JSON.stringify(config)});
    await runMain(plugin, () => undefined, stdin);`;
    try {
      const env = { ...ENV, CNI_COMMAND: "ADD" };
      const command = await moduleCommand(script, { env });
      const { code, stdout } = await command.output();
      assertEquals(JSON.parse(new TextDecoder().decode(stdout)), {
        cniVersion: "1.0.0",
        code: 999,
        msg: "Cannot return to the namespace this thread came from",
        details: "setns: EPERM",
      });
      assertEquals(code, 1);
      assertEquals(await Array.fromAsync(Deno.readDir(directory)), []);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
);
