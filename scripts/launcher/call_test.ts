import { assert, assertEquals } from "@std/assert";
import * as fc from "fast-check";
import {
  SHORT_TAKE_MS,
  TAKE_MS,
  TICK_MS,
} from "../../daemon/wire/call_format.ts";
import { TIMEOUT_PERIOD_MS } from "../../daemon/wire/daemon_timeouts.ts";
import { timeoutsFile } from "../../daemon/wire/daemon_socket.ts";
import { encodeMessage, type Message } from "../../daemon/wire/request.ts";
import { StdinName } from "../../daemon/wire/stdin_name.ts";
import { concat } from "../../net/bytes.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { FakeDaemon, type Reply } from "../../tests/_harness/unix_server.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { readLauncher } from "../stubs/add_code.ts";
import { makeCallStub } from "../stubs/call_stub.ts";
import { type Machine, roundUp } from "../mkdenort/elf.ts";
import { withFacts } from "../mkdenort/object.ts";
import { makeProgram, ProgramFile, testMachines } from "./testing.ts";

const BUILD = "0123456789abcdef".repeat(4);
/** What a call ends with if deno is to run it. */
const DENO_STATUS = 42;

/** Instructions have an alignment. */
const ALIGNMENT = 16;

/** Returns a program that runs the stub, and then `launcher/testing/engine.c` in the place of deno. */
function makeStub(
  machine: Machine,
  shows: "argc" | "path" = "argc",
): ProgramFile {
  const { length } = makeCallStub(machine, 0, BUILD);
  const toEngine = roundUp(length, ALIGNMENT);
  const stub = makeCallStub(machine, toEngine, BUILD);
  const engine = withFacts(readLauncher("testing/engine", machine), {
    numbers: [shows === "path" ? 1 : 0],
    texts: [],
  });
  const padding = new Uint8Array(toEngine - length);
  return new ProgramFile(
    machine,
    makeProgram(machine, stub, padding, engine),
  );
}

const ENV = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "c1",
  CNI_NETNS: "/proc/self/ns/net",
  CNI_IFNAME: "eth0",
  CNI_PATH: "/opt/cni/bin",
};

const DONE: Message = { stdout: "{}", exitCode: 0 };
const sayDone: Reply = ({ say }) => say(DONE);

testMachines("the launcher hands a call over", async (_, machine) => {
  await using daemon = new FakeDaemon(({ say }) =>
    say({ stderr: "one\n" }, { stderr: "" }, { stderr: "two\n" }, {
      stdout: "ä".repeat(100_000),
      exitCode: 1,
    })
  );
  await using stub = makeStub(machine);
  const stdin = JSON.stringify({ daemonSocket: daemon.path, text: "ö\0" });
  const env = { ...ENV, CNI_: "", CNI_X: "=", LC_ALL: "C", PATH: "/bin" };
  const others = { ANY: "thing", EMPTY: "", PATH_: "x", CNI: "1", XPATH: "/" };
  assertEquals(await stub.run({ stdin, env: { ...others, ...env } }), {
    code: 1,
    stdout: "ä".repeat(100_000),
    stderr: "one\ntwo\n",
  });
  assertEquals(daemon.requests, [{
    name: "program",
    build: BUILD,
    env,
    stdin,
  }]);
});

const success = encodeMessage(DONE);

/** What a daemon may say before it is gone, and whether deno has to run the call then. */
const replies: [string, Reply, toDeno: boolean][] = [
  ["an answer", sayDone, false],
  ["an answer byte by byte", async ({ say }): Promise<void> => {
    for (const byte of success) await say(Uint8Array.of(byte));
  }, false],
  ["an empty answer", ({ say }) => say({ stdout: "", exitCode: 0 }), false],
  ["signs of life", ({ say }) => say("alive", "alive", DONE), false],
  ["nothing", () => {}, true],
  ["a refusal", ({ say }) => say({ declined: "another build" }), true],
  ["a part of a header", ({ say }) => say(success.subarray(0, 15)), true],
  ["a part of an answer", ({ say }) => say(success.subarray(0, 17)), true],
  ["log text", ({ say }) => say({ stderr: "" }), true],
  ["kind 0", ({ say }) => say(new Uint8Array(16)), true],
  ["kind 5, again", ({ say }) => say("taken"), true],
  ["kind 7", ({ say }) => say(header(7n, 0n)), true],
  ["a negative kind", ({ say }) => say(header(-1n, 0n)), true],
  ["16 MiB and one byte", ({ say }) => say(header(2n, 2n ** 24n + 1n)), true],
  ["a negative length", ({ say }) => say(header(2n, -1n)), true],
];

/** The same instead of `taken`. */
const openings: [string, Reply][] = [
  ["nothing", () => {}],
  ["a refusal", ({ say }) => say({ declined: "another build" })],
  [
    "the refusal of an old daemon",
    ({ say }) => say(encode('{"declined":"the request is malformed"}\n')),
  ],
  ["a part of a header", ({ say }) => say(header(5n, 0n).subarray(0, 15))],
  ["an answer", sayDone],
  ["taken, with text", ({ say }) => say(concat([header(5n, 1n), encode("x")]))],
  ["alive", ({ say }) => say("alive")],
];

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function header(kind: bigint, length: bigint): Uint8Array<ArrayBuffer> {
  return new Uint8Array(BigInt64Array.of(kind, length).buffer);
}

testMachines("the launcher understands each answer", async (t, machine) => {
  await using stub = makeStub(machine);
  await eachRow(t, replies, async ([, reply, toDeno]) => {
    await using daemon = new FakeDaemon(reply);
    const stdin = JSON.stringify({ daemonSocket: daemon.path });
    const { code, stdout, stderr } = await stub.run({ stdin, env: ENV });
    assertEquals([code, stderr], [toDeno ? DENO_STATUS : 0, ""]);
    if (toDeno) assertEquals(stdout, `1${stdin}`);
    assertEquals(daemon.requests.length, 1);
  });
});

testMachines(
  "the launcher begins what the daemon takes",
  async (t, machine) => {
    await using stub = makeStub(machine);
    await eachRow(t, openings, async ([, reply]) => {
      const said = Promise.withResolvers<string>();
      await using daemon = new FakeDaemon(async (conversation) => {
        try {
          await reply(conversation);
          said.resolve(await conversation.callerSays());
        } catch (error) {
          said.reject(error);
        }
      }, { isTaken: false });
      const stdin = JSON.stringify({ daemonSocket: daemon.path });
      const ended = await stub.run({ stdin, env: ENV });
      assertEquals(ended, {
        code: DENO_STATUS,
        stdout: `1${stdin}`,
        stderr: "",
      });
      assertEquals(await said.promise, "");
    });
  },
);

testMachines("the launcher leaves other calls to deno", async (t, machine) => {
  await using daemon = new FakeDaemon(sayDone);
  await using stub = makeStub(machine);
  const { path } = daemon;
  const named = JSON.stringify({ daemonSocket: path });
  const rows: Record<string, Parameters<typeof stub.run>[0]> = {
    "no configuration": { stdin: "" },
    "no socket": { stdin: "{}" },
    "no JSON": { stdin: "daemonSocket" },
    "an unfinished string": { stdin: `{"daemonSocket": "${path}` },
    "an unfinished key": { stdin: '{"daemonSocket' },
    "an escape at the end": { stdin: '{"daemonSocket\\' },
    "a key without a value": { stdin: '{"daemonSocket":' },
    "a key without a colon": { stdin: `{"daemonSocket" "${path}"}` },
    "a value that is not a string": { stdin: '{"daemonSocket": [1]}' },
    "an empty path": { stdin: '{"daemonSocket": ""}' },
    "a relative path": { stdin: `{"daemonSocket": "${path.slice(1)}"}` },
    "an escape in the path": {
      stdin: `{"daemonSocket": "\\${path}"}`,
    },
    "a path that is too long": {
      stdin: `{"daemonSocket": "/${"x".repeat(107)}"}`,
    },
    "nothing there": { stdin: '{"daemonSocket": "/nonexistent"}' },
    "the key twice": { stdin: `${named.slice(0, -1)},${named.slice(1)}` },
    "the key deeper down": { stdin: `{"a": ${named}}` },
    "the key in a list": { stdin: `[${named}]` },
    "the key behind the object": { stdin: `{} "daemonSocket": "${path}"` },
    "the key as a value": { stdin: '{"a": "daemonSocket"}' },
    "the key in a string": {
      stdin: `{"a": "\\"daemonSocket\\": \\"${path}\\""}`,
    },
    "a key of the same length": { stdin: `{"daemonSockex": "${path}"}` },
    "a directory, for a plugin that has none": {
      stdin: JSON.stringify({ daemonSocketDir: directoryOf(path) }),
    },
    "an argument": { stdin: named, args: ["x"] },
    "VERSION": { stdin: named, env: { ...ENV, CNI_COMMAND: "VERSION" } },
    "part of a command": { stdin: named, env: { ...ENV, CNI_COMMAND: "AD" } },
    "more than a command": {
      stdin: named,
      env: { ...ENV, CNI_COMMAND: "ADDS" },
    },
    "no environment": { stdin: named, env: {} },
    "CNI_NO_DAEMON": { stdin: named, env: { ...ENV, CNI_NO_DAEMON: "1" } },
    "CNI_TRACE": { stdin: named, env: { ...ENV, CNI_TRACE: "/tmp/x" } },
    ...Object.fromEntries(
      ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"].map((name) => [
        `no ${name}`,
        { stdin: named, env: { ...ENV, [name]: "" } },
      ]),
    ),
  };
  await eachRow(t, Object.entries(rows), async ([, call]) => {
    const argc = 1 + (call?.args?.length ?? 0);
    assertEquals(await stub.run({ env: ENV, ...call }), {
      code: DENO_STATUS,
      stdout: `${argc}${call?.stdin ?? ""}`,
      stderr: "",
    });
  });
  assertEquals(daemon.requests.length, 0);
});

/** What timeouts there may be, and whether a call then waits for less. */
const timeouts: [string, ageMs: number | undefined, isShort: boolean][] = [
  ["no timeout", undefined, false],
  ["a timeout", 0, true],
  ["a timeout of long ago", TIMEOUT_PERIOD_MS, false],
  ["a timeout of the future", -TIMEOUT_PERIOD_MS, false],
];

testMachines(
  "the launcher waits for less after a timeout",
  async (t, machine) => {
    await using stub = makeStub(machine, "path");
    await eachRow(t, timeouts, async ([, ageMs, isShort]) => {
      await using daemon = new FakeDaemon(({ callerGone }) => callerGone(), {
        isTaken: false,
      });
      if (ageMs !== undefined) {
        const file = timeoutsFile(daemon.path),
          time = new Date(Date.now() - ageMs);
        await Deno.writeTextFile(file, "");
        await Deno.utime(file, time, time);
      }
      const stdin = JSON.stringify({ daemonSocket: daemon.path });
      const waits = `${directoryOf(daemon.path)}/waits`;
      const wrapper = ["strace", "-f", "-qq", "-e", "trace=ppoll", "-o", waits];
      const { stdout } = await stub.run({ stdin, env: TRACED, wrapper });
      const [name, ms] = isShort
        ? [StdinName.shortTimeout, SHORT_TAKE_MS]
        : [StdinName.timeout, TAKE_MS];
      assertEquals(stdout, `/memfd:${name} (deleted)${stdin}`);
      const ended = (await Deno.readTextFile(waits)).matchAll(
        / = 0 \(Timeout\)/g,
      );
      assertEquals([...ended].length, ms / TICK_MS);
      assertEquals(daemon.requests.length, 1);
    }, ([name]) => name);
  },
  "strace",
);

/** What the daemon says before shutdown(2), and what the engine is told then. */
const lastWords = [
  ["taken", "taken", StdinName.silent],
  ["a refusal", { declined: "another build" }, StdinName.local],
] as const;

testMachines(
  "the launcher sees what comes at the end of its wait",
  async (t, machine) => {
    await using stub = makeStub(machine, "path");
    await eachRow(t, lastWords, async ([, message, name]) => {
      const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
      const calls = `${directory}/calls`, tracer = `${directory}/tracer`;
      // The wait is over, and the daemon speaks before shutdown(2).
      await using daemon = new FakeDaemon(async ({ say, callerGone }) => {
        await eventually("the wait is over", async () => {
          const ended = (await Deno.readTextFile(calls)).match(/\(Timeout\)/g);
          return ended?.length === TAKE_MS / TICK_MS;
        });
        await say(message);
        // Whoever is traced goes on without its tracer.
        Deno.kill(Number(await Deno.readTextFile(tracer)), "SIGKILL");
        await callerGone();
      }, { isTaken: false });
      const stdin = JSON.stringify({ daemonSocket: daemon.path });
      const trace = [
        ...["-f", "-qq", "-o", calls, "-e", "trace=ppoll,shutdown"],
        ...["-e", "inject=shutdown:delay_enter=600s"],
      ];
      const start = 'echo $$ > "$0" && exec strace "$@"';
      const wrapper = ["sh", "-c", start, tracer, ...trace];
      const { stdout } = await stub.run({ stdin, env: TRACED, wrapper });
      assertEquals(stdout, `/memfd:${name} (deleted)${stdin}`);
      await Deno.remove(directory, { recursive: true });
    });
  },
  "strace",
);

testMachines("the launcher does without ppoll(2)", async (_, machine) => {
  await using stub = makeStub(machine, "path");
  await using daemon = new FakeDaemon(({ callerGone }) => callerGone(), {
    isTaken: false,
  });
  const stdin = JSON.stringify({ daemonSocket: daemon.path });
  const wrapper = without("ppoll");
  const { stdout } = await stub.run({ stdin, env: TRACED, wrapper });
  assertEquals(stdout, `/memfd:${StdinName.local} (deleted)${stdin}`);
}, "strace");

function directoryOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}

/** The environment of calls that strace wraps: it looks for the emulator. */
const TRACED = { ...ENV, PATH: Deno.env.get("PATH") ?? "" };

/** Runs a program that may not call the kernel so. */
function without(systemCalls: string): string[] {
  return [
    ...["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"],
    ...["-e", `trace=${systemCalls}`],
    ...["-e", `inject=${systemCalls}:error=EPERM`],
  ];
}

testMachines("the launcher puts stdin into a pipe", async (t, machine) => {
  await using stub = makeStub(machine);
  const wrapper = without("memfd_create");
  const rows: Record<string, string> = {
    "nothing": "",
    "a little": "{}",
    "as much as a pipe holds": "x".repeat(64 * 1024),
    "a MiB": "x".repeat(2 ** 20 - 1),
  };
  await eachRow(t, Object.entries(rows), async ([, stdin]) => {
    assertEquals(await stub.run({ stdin, env: TRACED, wrapper }), {
      code: DENO_STATUS,
      stdout: `1${stdin}`,
      stderr: "",
    });
  });
  const neither = without("memfd_create,pipe2");
  const failed = await stub.run({ stdin: "{}", env: TRACED, wrapper: neither });
  const { code, msg } = JSON.parse(failed.stdout);
  assertEquals([failed.code, code, msg], [
    1,
    5,
    "Cannot keep the configuration: memfd_create(2), pipe2(2) or write(2) failed",
  ]);
}, "strace");

testMachines(
  "the launcher fails a lost ADD that has no name",
  async (t, machine) => {
    await using stub = makeStub(machine);
    const wrapper = without("memfd_create");
    const rows: [command: string, reply: Reply, isLost: boolean][] = [
      ["ADD", () => {}, true],
      ["ADD", ({ callerGone }) => callerGone(), true],
      ["ADD", ({ say }) => say({ declined: "another build" }), false],
      ["DEL", () => {}, false],
      ["DEL", ({ callerGone }) => callerGone(), false],
      ["CHECK", () => {}, false],
    ];
    await eachRow(t, rows, async ([command, reply, isLost]) => {
      await using daemon = new FakeDaemon(reply);
      const stdin = JSON.stringify({ daemonSocket: daemon.path });
      const env = { ...TRACED, CNI_COMMAND: command };
      const ended = await stub.run({ stdin, env, wrapper });
      assertEquals(daemon.requests.length, 1);
      if (!isLost) {
        assertEquals(ended, {
          code: DENO_STATUS,
          stdout: `1${stdin}`,
          stderr: "",
        });
        return;
      }
      assertEquals([ended.code, ended.stderr], [1, ""]);
      assertEquals(JSON.parse(ended.stdout), {
        cniVersion: "1.1.0",
        code: 11,
        msg: `The node daemon at "${daemon.path}" went away before it answered`,
        details: "parts of the attachment may exist until DEL",
      });
    }, ([command, , isLost]) => `${command} ${isLost ? "fails" : "runs"}`);
  },
  "strace",
);

/** A call whose stdin is text. */
interface TextCall {
  readonly stdin: string;
  readonly env?: Readonly<Record<string, string>>;
}

testMachines("the launcher finds the socket", async (t, machine) => {
  await using daemon = new FakeDaemon(sayDone);
  await using stub = makeStub(machine);
  const path = JSON.stringify(daemon.path);
  const without = (name: keyof typeof ENV, command: string) => ({
    ...Object.fromEntries(Object.entries(ENV).filter(([key]) => key !== name)),
    CNI_COMMAND: command,
  });
  const one = { stdin: `{"daemonSocket":${path}}` };
  const rows: Record<string, TextCall> = {
    "white space": { stdin: `\t{ \n"daemonSocket" \r\n\t : \n\n ${path} }\n` },
    "a byte order mark": { stdin: `\uFEFF{"daemonSocket":${path}}` },
    "behind other values": {
      stdin: `{"a": [{"daemonSocket": "/x"}, "]}", 1, "\\\\"],` +
        `"daemonSocketDir": "/nonexistent", "daemonSocket": ${path}}`,
    },
    "before what is not JSON": { stdin: `{"daemonSocket": ${path}, ]}` },
    "after 200 KiB": {
      stdin: `{"a": "${"x".repeat(200_000)}", "daemonSocket": ${path}}`,
    },
    "in a large environment": {
      ...one,
      env: { ...ENV, A: "x".repeat(100_000), B: "y".repeat(100_000) },
    },
    "CHECK": { ...one, env: { ...ENV, CNI_COMMAND: "CHECK" } },
    "DEL without a namespace": { ...one, env: without("CNI_NETNS", "DEL") },
    "GC": { ...one, env: { CNI_COMMAND: "GC", CNI_PATH: "/x" } },
    "STATUS": { ...one, env: { CNI_COMMAND: "STATUS", CNI_PATH: "/x" } },
  };
  await eachRow(t, Object.entries(rows), async ([, call]) => {
    const { code, stdout } = await stub.run({ env: ENV, ...call });
    assertEquals([code, stdout], [0, "{}"]);
    assertEquals(
      daemon.requests.pop()?.stdin,
      call.stdin.replace("\uFEFF", ""),
    );
  });
});

testMachines(
  "the launcher takes paths as long as a socket's may be",
  async (_, machine) => {
    await using stub = makeStub(machine);
    const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
    // The longest of the stub leaves room for the name of a directory's socket.
    const path = `${directory}/`.padEnd(94, "x");
    const listener = Deno.listen({ transport: "unix", path });
    const accepted = listener.accept().then((one) => one.close());
    const stdin = JSON.stringify({ daemonSocket: path });
    const { code } = await stub.run({ stdin, env: ENV });
    assertEquals(code, DENO_STATUS);
    await accepted;
    listener.close();
    await Deno.remove(directory, { recursive: true });
  },
);

testMachines(
  "the launcher finds the socket of a directory",
  async (t, machine) => {
    await using daemon = new FakeDaemon(sayDone);
    await using stub = makeStub(machine);
    const directory = directoryOf(daemon.path);
    const rows: [name: string, config: object, isAsked: boolean][] = [
      ["multus", { daemonSocketDir: directory }, true],
      ["chain", { daemonSocketDir: directory }, true],
      ["multus-shim", { daemonSocketDir: directory }, true],
      ["multu", { daemonSocketDir: directory }, false],
      ["multus-shi", { daemonSocketDir: directory }, false],
      ["chains", { daemonSocketDir: directory }, false],
      ["multus", { daemonSocketDir: `${directory}/` }, true],
      ["multus", { daemonSocketDir: "" }, false],
      ["multus", { daemonSocketDir: `${directory}x` }, false],
      ["multus", {
        daemonSocketDir: "/nonexistent",
        daemonSocket: daemon.path,
      }, true],
      ["multus", {
        daemonSocketDir: directory,
        daemonSocket: "/nonexistent",
      }, false],
    ];
    for (const name of new Set(rows.map(([name]) => name))) stub.link(name);
    await eachRow(t, rows, async ([name, config, isAsked]) => {
      const stdin = JSON.stringify(config);
      const { code } = await stub.run({ name, stdin, env: ENV });
      assertEquals(code, isAsked ? 0 : DENO_STATUS);
      assertEquals(daemon.requests.pop()?.name, isAsked ? name : undefined);
    }, ([name, config]) => `${name} ${Object.keys(config)}`);
  },
);

Deno.test("the launcher asks no socket that the configuration does not name", async () => {
  await using daemon = new FakeDaemon(sayDone);
  await using stub = makeStub(Deno.build.arch);
  const key = `"daemonSocket":"${daemon.path}"`;
  const pieces = [
    ...['{"a":1,', "{", "}", "[", "]", '"', ":", ",", "\\", " ", "\n", "1"],
    ...[key, key, `${key},`, `"x":{${key}},`, `"x":"${key}",`],
    ...['"daemonSocket"', "null", '"daemonSocket":', `"${daemon.path}"`],
  ];
  const texts = fc.array(fc.constantFrom(...pieces), { maxLength: 8 })
    .map((parts) => `{${parts.join("")}}`);
  await fc.assert(
    fc.asyncProperty(texts, async (stdin) => {
      daemon.requests.length = 0;
      const { code, stdout } = await stub.run({ stdin, env: ENV });
      const isAsked = daemon.requests.length > 0;
      assertEquals(
        [code, stdout],
        isAsked ? [0, "{}"] : [DENO_STATUS, `1${stdin}`],
      );
      // The daemon finds out what is not JSON.
      if (isAsked) assert(!isOther(stdin, daemon.path), stdin);
    }),
    { numRuns: 500 },
  );
});

/** Reports whether a text is JSON that names another socket, or none. */
function isOther(text: string, path: string): boolean {
  try {
    return JSON.parse(text).daemonSocket !== path;
  } catch {
    return false;
  }
}
