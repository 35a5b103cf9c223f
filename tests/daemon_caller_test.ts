/**
 * The caller's side of the node daemon: whole executables, and a daemon that says
 * what the test tells it to.
 *
 * @module
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../base/json/json.ts";
import { pause } from "../base/deadline.ts";
import {
  SHORT_TAKE_MS,
  SILENCE_MS,
  TAKE_MS,
} from "../daemon/wire/call_format.ts";
import { TIMEOUT_PERIOD_MS } from "../daemon/wire/daemon_timeouts.ts";
import { offFile, timeoutsFile } from "../daemon/wire/daemon_socket.ts";
import { UnixStream } from "../ffi/socket/unix_stream.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
  needsRoot,
} from "../testing/capabilities.ts";
import { concat } from "../net/bytes.ts";
import { encodeMessage, type Message } from "../daemon/wire/request.ts";
import { BlockedDaemon, type StandStill } from "./_harness/blocked_daemon.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import { FakeDaemon, leaveSocket, type Reply } from "./_harness/unix_server.ts";
import { needsOtherCaller, needsOtherUser } from "./_harness/other_user.ts";
import { eachRow } from "./_harness/table.ts";

/** Defines a test that runs executables. */
function test(
  name: string,
  fn: (t: Deno.TestContext) => Promise<void>,
  ...needs: readonly Needs[]
): void {
  const { ignore, suffix } = allOf(needsBin, ...needs);
  Deno.test({ name: name + suffix, ignore, fn });
}

/**
 * Defines a test that runs twice: calls are handed over before deno starts, and by
 * deno, to which the stub leaves another spelling of the key.
 */
function testBoth(
  name: string,
  fn: (t: Deno.TestContext, key: string) => Promise<void>,
): void {
  test(name, (t) => fn(t, "daemonSocket"));
  test(`${name}, by deno`, (t) => fn(t, "DaemonSocket"));
}

const CONFIG = {
  cniVersion: "1.1.0",
  name: "net",
  type: "static",
  ipam: { type: "static", addresses: [{ address: "10.9.8.7/24" }] },
};

/** One call of a plugin. */
interface Run {
  readonly name?: string;
  readonly command?: string;
  readonly config: object | string | Uint8Array<ArrayBuffer>;
  readonly env?: Record<string, string>;
  readonly args?: string[];
  /** Starts it. */
  readonly wrapper?: string[];
  readonly uid?: number;
  /** Receives stderr as it comes. */
  readonly onStderr?: (text: string) => void;
}

interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

/** The environment of calls, without the command. */
const ENV = {
  CNI_CONTAINERID: "pod-1",
  CNI_NETNS: "/proc/self/ns/net",
  CNI_NETNS_OVERRIDE: "1",
  CNI_IFNAME: "eth0",
  CNI_PATH: "/nonexistent",
};

/** Starts a plugin with only the given environment. */
function start(
  {
    name = "static",
    command = "ADD",
    args = [],
    wrapper = [],
    env,
    uid,
    ...more
  }: Run,
): { child: Deno.ChildProcess; ended: Promise<Ended> } {
  const [program = "", ...words] = [...wrapper, `${BIN}/${name}`, ...args];
  const child = new Deno.Command(program, {
    args: words,
    cwd: "/",
    env: {
      ...ENV,
      CNI_COMMAND: command,
      ...env,
    },
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
    ...uid === undefined ? {} : { uid },
  }).spawn();
  return { child, ended: finish(child, more) };
}

async function finish(
  child: Deno.ChildProcess,
  { config, onStderr }: Pick<Run, "config" | "onStderr">,
): Promise<Ended> {
  const input = typeof config === "string" || config instanceof Uint8Array
    ? config
    : JSON.stringify(config);
  const [, stdout, stderr, { code }] = await Promise.all([
    // A call that fails early does not read.
    new Response(input).body?.pipeTo(child.stdin).catch(() => {}),
    read(child.stdout),
    read(child.stderr, onStderr),
    child.status,
  ]);
  return { stdout, stderr, code };
}

async function read(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onText: (text: string) => void = () => {},
): Promise<string> {
  let text = "";
  for await (const part of stream.pipeThrough(new TextDecoderStream())) {
    text += part;
    onText(text);
  }
  return text;
}

function run(options: Run): Promise<Ended> {
  return start(options).ended;
}

/** Runs a call as if there were no daemon. */
function runAlone(options: Run): Promise<Ended> {
  return run({ ...options, env: { ...options.env, CNI_NO_DAEMON: "1" } });
}

const DONE: Message = { stdout: "{}", exitCode: 0 };
const sayDone: Reply = ({ say }) => say(DONE);

testBoth("a call goes to the daemon with all that it needs", async (_, key) => {
  await using daemon = new FakeDaemon(({ say }) =>
    say({ stdout: '{"any": "document"}', exitCode: 1 })
  );
  const config = { ...CONFIG, [key]: daemon.path, text: "è😀\u0000" };
  const sent = { CNI_ANY: "thing", PATH: "/bin", KUBECONFIG: "/k" };
  const ended = await run({ config, env: { ...sent, ANY: "", PATHS: "" } });
  assertEquals(ended, { stdout: '{"any": "document"}', stderr: "", code: 1 });
  const [request, ...others] = daemon.requests;
  assert(request !== undefined && others.length === 0);
  const { build, ...rest } = request;
  assertMatch(build, /^[0-9a-f]{64}$/);
  assertEquals(rest, {
    name: "static",
    env: { ...ENV, CNI_COMMAND: "ADD", ...sent },
    stdin: JSON.stringify(config),
  });
});

/** Starts a program with a second CNI_COMMAND, which comes last. */
const TWICE = `
my @env = ((map { "$_=$ENV{$_}" } keys %ENV), "CNI_COMMAND=STATUS");
my ($argv, $envp) = map { pack("p*", @$_) . "\\0" x 8 } (\\@ARGV, \\@env);
syscall(${Deno.build.arch === "aarch64" ? 221 : 59}, $ARGV[0], $argv, $envp);
die "execve: $!";
`;

test(
  "the first value of a repeated variable is used, with and without a daemon",
  async (t) => {
    await using daemon = new FakeDaemon(sayDone);
    const wrapper = ["perl", "-e", TWICE];
    await eachRow(t, ["daemonSocket", "DaemonSocket"], async (key) => {
      const call = { config: { ...CONFIG, [key]: daemon.path }, wrapper };
      assertEquals((await run(call)).stdout, "{}");
      assertEquals(daemon.requests.at(-1)?.env["CNI_COMMAND"], "ADD");
      const { wrapper: _, ...once } = call;
      const alone = await runAlone(call);
      assertEquals(alone, await runAlone(once));
      assertMatch(alone.stdout, /10\.9\.8\.7/);
    });
  },
  ignoreUnless(hasCommand("perl"), "needs perl"),
);

test("the daemon runs a call with a path that is not UTF-8", async () => {
  await using daemon = new FakeDaemon(sayDone);
  const config = { ...CONFIG, daemonSocket: daemon.path };
  const script = "exec -a $'/opt/\\xff/static' \"$0\"";
  const { stdout, code } = await run({
    config,
    wrapper: ["bash", "-c", script],
  });
  assertEquals([stdout, code], ["{}", 0]);
  assertEquals(daemon.requests[0]?.name, "static");
});

testBoth("log text is printed while the daemon works", async (_, key) => {
  const { promise: seen, resolve } = Promise.withResolvers<void>();
  await using daemon = new FakeDaemon(async ({ say }) => {
    await say({ stderr: "one\n" }, { stderr: "two" });
    await seen;
    await say({ stderr: "\n" }, DONE);
  });
  const { stdout, stderr } = await run({
    config: { ...CONFIG, [key]: daemon.path },
    onStderr: (text) => text === "one\ntwo" && resolve(),
  });
  assertEquals({ stdout, stderr }, { stdout: "{}", stderr: "one\ntwo\n" });
});

testBoth("an answer is read however it arrives", async (t, key) => {
  const text = "x€😀\u2028\n".repeat(1000);
  const bytes = concat(
    [{ stderr: "é" }, { stdout: text, exitCode: 0 }].map(encodeMessage),
  );
  const large = { stdout: "long ".repeat(2 ** 20), exitCode: 0 };
  const replies: Record<string, [reply: Reply, stdout: string]> = {
    "byte by byte": [async ({ say }): Promise<void> => {
      for (const byte of bytes) await say(Uint8Array.of(byte));
    }, text],
    "all of 5 MiB": [({ say }) => say(large), large.stdout],
    "without waiting for the end": [async ({ say, callerGone }) => {
      await say(DONE);
      await callerGone();
    }, "{}"],
  };
  await eachRow(t, Object.entries(replies), async ([, [reply, stdout]]) => {
    await using daemon = new FakeDaemon(reply);
    const config = { ...CONFIG, [key]: daemon.path };
    assertEquals((await run({ config })).stdout, stdout);
  });
});

testBoth("a request of any size is sent", async (_, key) => {
  await using daemon = new FakeDaemon(sayDone);
  const filling = "filling ".repeat(2 ** 17);
  const config = { ...CONFIG, filling, [key]: daemon.path };
  assertEquals((await run({ config })).stdout, "{}");
  assertEquals(daemon.requests[0]?.stdin, JSON.stringify(config));
});

testBoth("a call runs in its process if no daemon takes it", async (t, key) => {
  await using refusing = new FakeDaemon(({ say }) =>
    say({ declined: "another build" })
  );
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  await Deno.writeTextFile(`${directory}/file`, "");
  leaveSocket(`${directory}/dead.sock`);
  const sockets = {
    "nothing is there": `${directory}/none.sock`,
    "a directory is missing": `${directory}/none/daemon.sock`,
    "a file that is not a socket": `${directory}/file`,
    "a directory": directory,
    "nothing listens": `${directory}/dead.sock`,
    "a path longer than a socket's": `${directory}/${"x".repeat(100)}`,
    "the daemon declines": refusing.path,
  };
  await eachRow(t, Object.entries(sockets), async ([, daemonSocket]) => {
    for (const command of ["ADD", "CHECK", "DEL", "GC", "STATUS"]) {
      const config = { ...CONFIG, [key]: daemonSocket };
      const call = { command, config };
      assertEquals(await run(call), await runAlone(call), command);
    }
  });
  assertEquals(refusing.requests.length, 5);
  await Deno.remove(directory, { recursive: true });
});

test(
  "a call runs locally if it has no permission on the socket",
  async () => {
    await using daemon = new FakeDaemon(sayDone);
    const call = {
      config: { ...CONFIG, daemonSocket: daemon.path },
      uid: 65534,
    };
    const alone = await runAlone(call);
    assertEquals(await run(call), alone);
    assertEquals([alone.code, daemon.requests.length], [0, 0]);
  },
  needsOtherCaller,
);

/** A listener that keeps what it receives, and prints `ready` immediately. */
const LISTENER = `
use Socket;
$SIG{PIPE} = "IGNORE";
socket(my $listener, AF_UNIX, SOCK_STREAM, 0) or die;
bind($listener, sockaddr_un($ARGV[0])) or die;
chmod(0777, $ARGV[0]);
listen($listener, 8);
$| = 1;
print "listening\\n";
while (accept(my $caller, $listener)) {
  syswrite($caller, pack("QQ", 5, 0));
  print "got " . length(join("", <$caller>)) . "\\n";
}
`;

test(
  "a caller sends nothing to a listener of another user",
  async () => {
    const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
    await Deno.chmod(directory, 0o777);
    const path = `${directory}/daemon.sock`;
    const listener = new Deno.Command("perl", {
      args: ["-e", LISTENER, path],
      uid: 65534,
      stdout: "piped",
    }).spawn();
    const lines = listener.stdout.pipeThrough(new TextDecoderStream())
      .getReader();
    assertEquals((await lines.read()).value, "listening\n");
    for (const key of ["daemonSocket", "DaemonSocket"]) {
      const config = { ...CONFIG, [key]: path };
      for (const command of ["ADD", "DEL"]) {
        const call = { command, config };
        assertEquals(await run(call), await runAlone(call));
        assertEquals((await lines.read()).value, "got 0\n");
      }
    }
    listener.kill();
    await lines.cancel();
    await listener.status;
    await Deno.remove(directory, { recursive: true });
  },
  needsOtherUser,
  ignoreUnless(hasCommand("perl"), "needs perl"),
);

/** Runs calls with a daemon at a path of a directory of its own; returns how many timeouts they record. */
async function withTimeouts(
  reply: Reply | undefined,
  fn: (path: string) => Promise<void>,
): Promise<number> {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const path = `${directory}/daemon.sock`;
  await using daemon = reply && new FakeDaemon(reply, { isTaken: false });
  if (daemon !== undefined) await Deno.symlink(daemon.path, path);
  using _listener = daemon === undefined &&
      Deno.listen({ transport: "unix", path }) || undefined;
  await fn(path);
  const lines = await Deno.readTextFile(timeoutsFile(path)).catch(() => "");
  await Deno.remove(directory, { recursive: true });
  return lines.split("\n").length - 1;
}

testBoth("a call waits for no daemon without end", async (t, key) => {
  const taken = encodeMessage("taken");
  const silence: Reply = async ({ say, callerGone }) => {
    await say("taken");
    await callerGone();
  };
  const large = { filling: "filling ".repeat(2 ** 17) };
  /** Without a reply nobody accepts the connection. `isBegun`: the daemon takes the call. */
  const rows: [
    string,
    Reply | undefined,
    { isBegun?: boolean; more?: object },
  ][] = [
    ["nobody accepts", undefined, {}],
    ["nobody reads", undefined, { more: large }],
    ["no answer", ({ callerGone }) => callerGone(), {}],
    ["taken, byte by byte", async ({ say }): Promise<void> => {
      for (const byte of taken) {
        await say(Uint8Array.of(byte));
        await pause(200);
      }
    }, {}],
    ["silence after taken", silence, { isBegun: true }],
    ["silence after a sign", async ({ say, callerGone }): Promise<void> => {
      await say("taken");
      await say("alive");
      await callerGone();
    }, { isBegun: true }],
  ];
  // At the same time, as each waits for seconds.
  await Promise.all(rows.map(([name, reply, { isBegun, more }]) =>
    t.step({
      name,
      sanitizeOps: false,
      sanitizeResources: false,
      sanitizeExit: false,
      fn: async () => {
        const timeouts = await withTimeouts(reply, async (path) => {
          const config = { ...CONFIG, ...more, [key]: path };
          const [add, del] = await Promise.all([
            run({ config }),
            run({ command: "DEL", config }),
          ]);
          const alone = await runAlone({ config });
          if (isBegun) {
            const { code, msg } = JSON.parse(add.stdout);
            assertEquals(
              [code, msg],
              [
                11,
                `The node daemon at "${path}" went away before it answered`,
              ],
            );
          } else assertEquals(add, alone);
          assertEquals(del, await runAlone({ command: "DEL", config }));
        });
        assertEquals(timeouts, 2);
      },
    })
  ));
});

testBoth(
  "a call waits for less soon after another's timeout",
  async (_, key) => {
    const [takeMs, shortMs] = [TAKE_MS, SHORT_TAKE_MS];
    await withTimeouts(({ callerGone }) => callerGone(), async (path) => {
      const waited: number[] = [];
      const call = async (command: string): Promise<void> => {
        const options = { command, config: { ...CONFIG, [key]: path } };
        assertEquals(await run(options), await runAlone(options));
        const lines = (await Deno.readTextFile(timeoutsFile(path))).trim();
        waited.push(Number(lines.split("\n").at(-1)?.split(" ")[1]));
      };
      await call("ADD");
      await call("ADD");
      await call("DEL");
      const longAgo = new Date(Date.now() - TIMEOUT_PERIOD_MS);
      await Deno.utime(timeoutsFile(path), longAgo, longAgo);
      await call("CHECK");
      await Deno.remove(timeoutsFile(path));
      await call("DEL");
      assertEquals(waited, [takeMs, shortMs, shortMs, takeMs, takeMs]);
    });
  },
);

testBoth("a full backlog is nobody", async (_, key) => {
  const timeouts = await withTimeouts(undefined, async (path) => {
    using waiting = new DisposableStack();
    for (;;) {
      const stream = UnixStream.connect(path);
      if (stream === undefined) break;
      waiting.use(stream);
    }
    for (const command of ["ADD", "DEL"]) {
      const call = { command, config: { ...CONFIG, [key]: path } };
      assertEquals(await run(call), await runAlone(call));
    }
  });
  assertEquals(timeouts, 0);
});

testBoth("a daemon that is turned off is not asked", async (_, key) => {
  await using daemon = new FakeDaemon(sayDone);
  const config = { ...CONFIG, [key]: daemon.path };
  await Deno.writeTextFile(offFile(daemon.path), "");
  const commands = ["ADD", "CHECK", "DEL"];
  for (const command of commands) {
    const call = { command, config };
    assertEquals(await run(call), await runAlone(call));
  }
  assertEquals(daemon.requests.length, 0);
  const told = (await Deno.readTextFile(offFile(daemon.path))).split("\n")
    .map((line) => line && JSON.parse(line));
  const names = ["pod-1", "eth0", CONFIG.name];
  assertEquals(told, [["ADD", ...names], ["DEL", ...names], ""]);
  await Deno.remove(offFile(daemon.path));
  assertEquals((await run({ config })).stdout, "{}");
});

test(
  "a configuration without daemonSocket uses the default socket",
  async (t) => {
    await using daemon = new FakeDaemon(sayDone);
    const off = { env: { CNI_NO_DAEMON: "yes" } };
    const rows: Record<
      string,
      [stdin: string, isAsked: boolean, more?: Partial<Run>]
    > = {
      "nothing": ["{}", true],
      "null": ['{"daemonSocket":null}', true],
      "no JSON": ['"', true],
      "an empty directory, for multus": [
        '{"daemonSocketDir":""}',
        true,
        { name: "multus" },
      ],
      "a directory, for others": ['{"daemonSocketDir":"/x"}', true],
      "an empty variable": ["{}", true, { env: { CNI_NO_DAEMON: "" } }],
      "an empty name": ['{"daemonSocket":""}', false],
      "an empty name in another spelling": ['{"DaemonSocket":""}', false],
      "an escape": ['{"daemonSocket":"\\/nonexistent"}', false],
      "another path": ['{"daemonSocket":"/nonexistent"}', false],
      "another directory, for chain": [
        '{"daemonSocketDir":"/nonexistent"}',
        false,
        { name: "chain" },
      ],
      "the variable": ["{}", false, off],
      "a trace": ["{}", false, { env: { CNI_TRACE: "/nonexistent/trace" } }],
      "an empty trace": ["{}", true, { env: { CNI_TRACE: "" } }],
      "VERSION": ["{}", false, { command: "VERSION" }],
    };
    await eachRow(
      t,
      Object.entries(rows),
      async ([, [stdin, isAsked, more]]) => {
        daemon.requests.length = 0;
        const script = "mount -t tmpfs tmpfs /run && mkdir /run/cni && " +
          'ln -s "$0" /run/cni/daemon.sock && exec "$@"';
        const wrapper = ["unshare", "--mount", "sh", "-c", script, daemon.path];
        await run({ config: stdin, wrapper, ...more });
        assertEquals(daemon.requests.length, isAsked ? 1 : 0);
      },
    );
  },
  needsRoot,
);

/** Encodes the header of a message. */
function message(kind: number, length: number): Uint8Array {
  const words = BigUint64Array.of(BigInt(kind), BigInt(length));
  return new Uint8Array(words.buffer);
}

testBoth(
  "after a lost connection ADD fails, and the rest runs here",
  async (t, key) => {
    const replies: Record<string, Reply> = {
      "at once": () => {},
      "within a header": ({ say }) => say(encodeMessage(DONE).subarray(0, 15)),
      "without the end of the text": ({ say }) =>
        say(encodeMessage(DONE).subarray(0, -1)),
      "after something else": ({ say }) =>
        say(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n")),
      "after a message of kind 0": ({ say }) => say(new Uint8Array(16)),
      "after an unknown message": ({ say }) => say(message(7, 0)),
      "after a second offer": ({ say }) => say("taken"),
      "after the longest message": ({ say }) => say(message(2, 2 ** 53)),
      "after log text": ({ say }) => say({ stderr: "" }),
    };
    await eachRow(t, Object.entries(replies), async ([, reply]) => {
      await using daemon = new FakeDaemon(reply);
      const config = { ...CONFIG, [key]: daemon.path };
      const { stdout, stderr, code } = await run({ config });
      assertEquals({ ...JSON.parse(stdout), stderr, exit: code }, {
        cniVersion: "1.1.0",
        code: 11,
        msg: `The node daemon at "${daemon.path}" went away before it answered`,
        details: "parts of the attachment may exist until DEL",
        stderr: "",
        exit: 1,
      });
      for (const command of ["CHECK", "DEL", "GC", "STATUS"]) {
        const call = { command, config };
        assertEquals(await run(call), await runAlone(call), command);
      }
      assertEquals(daemon.requests.length, 5);
    });
  },
);

Deno.test({
  name: "calls have the same result if memfd_create(2) is forbidden" +
    needsBin.suffix,
  ignore: needsBin.ignore || !hasCommand("strace"),
  fn: async () => {
    const wrapper = [
      ...["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"],
      ...["-e", "trace=memfd_create", "-e", "inject=memfd_create:error=EPERM"],
    ];
    const env = { PATH: Deno.env.get("PATH") ?? "" };
    await using daemon = new FakeDaemon(() => {});
    for (const daemonSocket of ["/nonexistent", daemon.path]) {
      for (const command of ["ADD", "DEL"]) {
        const call = { command, env, config: { ...CONFIG, daemonSocket } };
        assertEquals(await run({ ...call, wrapper }), await run(call));
      }
    }
    // A daemon that has declined a call is not asked again.
    const reply: Reply = ({ say }) => say({ declined: "another build" });
    await using refusing = new FakeDaemon(reply, { isTaken: false });
    const config = { ...CONFIG, daemonSocket: refusing.path };
    const call = { env, config };
    assertEquals(await run({ ...call, wrapper }), await run(call));
    assertEquals(refusing.requests.length, 2);
  },
});

testBoth("a call that was not begun runs in its process", async (t, key) => {
  const replies: Record<string, Reply> = {
    "after nothing": () => {},
    "after a part of a header": ({ say }) =>
      say(encodeMessage("taken").subarray(0, 15)),
    "after an answer": sayDone,
    "after something else": ({ say }) =>
      say(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n")),
  };
  await eachRow(t, Object.entries(replies), async ([, reply]) => {
    await using daemon = new FakeDaemon(reply, { isTaken: false });
    const config = { ...CONFIG, [key]: daemon.path };
    for (const command of ["ADD", "CHECK", "DEL", "GC", "STATUS"]) {
      const call = { command, config };
      assertEquals(await run(call), await runAlone(call), command);
    }
    assertEquals(daemon.requests.length, 5);
  });
});

testBoth(
  "the failure of a lost ADD has the configuration's version",
  async (_, key) => {
    await using daemon = new FakeDaemon(() => {});
    const versions = [];
    for (const cniVersion of ["0.4.0", "9.9.9", 1]) {
      const config = { ...CONFIG, cniVersion, [key]: daemon.path };
      versions.push(JSON.parse((await run({ config })).stdout).cniVersion);
    }
    assertEquals(versions, ["0.4.0", "1.1.0", "1.1.0"]);
  },
);

testBoth("a call that is killed leaves the daemon", async (_, key) => {
  const asked = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<void>();
  await using daemon = new FakeDaemon(async ({ callerGone }) => {
    asked.resolve();
    await callerGone();
    gone.resolve();
  });
  const config = { ...CONFIG, [key]: daemon.path };
  const { child, ended } = start({ config });
  await asked.promise;
  child.kill("SIGTERM");
  await gone.promise;
  assertEquals([(await child.status).signal, (await ended).stdout], [
    "SIGTERM",
    "",
  ]);
});

test("a custom socket is used only if the configuration names it", async (t) => {
  await using daemon = new FakeDaemon(sayDone);
  const { path } = daemon;
  const directory = path.slice(0, path.lastIndexOf("/"));
  const named = { ...CONFIG, daemonSocket: path };
  const rows: Record<string, [call: Run, isAsked: boolean]> = {
    "by the key": [{ config: named }, true],
    "by the key in another spelling": [{
      config: { ...CONFIG, DAEMONSOCKET: path },
    }, true],
    "by the last of two keys": [{
      config: { ...CONFIG, daemonSocket: "/nonexistent", DaemonSocket: path },
    }, true],
    "by a key that is not null": [{
      config: { ...named, DaemonSocket: null },
    }, true],
    "by the directory, for chain": [{
      name: "chain",
      config: { ...CONFIG, daemonSocketDir: directory },
    }, true],
    "by the directory, for multus": [{
      name: "multus",
      config: { ...CONFIG, daemonSocketDir: directory },
    }, true],
    "by the other key, if nothing is at the first": [{
      name: "multus",
      config: {
        ...CONFIG,
        daemonSocket: "/nonexistent",
        daemonSocketDir: directory,
      },
    }, true],
    "by what is not UTF-8": [{
      config: Uint8Array.of(
        ...new TextEncoder().encode(JSON.stringify(named).slice(0, -1)),
        ...[44, 34, 97, 34, 58, 34, 0xff, 34, 125],
      ),
    }, true],
    "not by the directory, for others": [{
      config: { ...CONFIG, daemonSocketDir: directory },
    }, false],
    "not by a key further down": [{
      config: { ...CONFIG, args: { daemonSocket: path } },
    }, false],
    "not by a relative path": [{
      config: { ...CONFIG, daemonSocket: path.slice(1) },
    }, false],
    "not by a number": [{ config: { ...CONFIG, daemonSocket: 1 } }, false],
    "not if it is turned off": [{
      config: named,
      env: { CNI_NO_DAEMON: "1" },
    }, false],
    "not for VERSION": [{ config: named, command: "VERSION" }, false],
    "not for an unknown command": [{ config: named, command: "add" }, false],
    "not without a command": [{ config: named, command: "" }, false],
    "not with arguments": [{ config: named, args: ["help"] }, false],
    "not without CNI_IFNAME": [
      { config: named, env: { CNI_IFNAME: "" } },
      false,
    ],
    "not by what is not JSON": [{ config: '"daemonSocket": 1' }, false],
    "not by another JSON value": [{ config: '["daemonSocket"]' }, false],
  };
  await eachRow(t, Object.entries(rows), async ([, [call, isAsked]]) => {
    daemon.requests.length = 0;
    const ended = await run(call);
    assertEquals(daemon.requests.length, isAsked ? 1 : 0);
    if (!isAsked) assertEquals(ended, await runAlone(call));
  });
});

test("a call without its environment fails before it reads stdin", async () => {
  await using daemon = new FakeDaemon(sayDone);
  const child = new Deno.Command(`${BIN}/static`, {
    env: { CNI_COMMAND: "ADD", CNI_PATH: "/nonexistent" },
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const { code } = await child.status;
  const { code: error } = await new Response(child.stdout).json();
  await child.stdin.close();
  assertEquals([code, error, daemon.requests.length], [1, 4, 0]);
});

/** Runs a shell script with a daemon; `$PLUGIN` is the plugin, `$CONFIG` a file that names the daemon. */
async function runScript(
  script: string,
  { reply = sayDone, daemonSocket, env = {} }: {
    readonly reply?: Reply;
    readonly daemonSocket?: string;
    readonly env?: Record<string, string>;
  } = {},
): Promise<Ended & { asked: number }> {
  await using daemon = new FakeDaemon(reply);
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const config = { ...CONFIG, daemonSocket: daemonSocket ?? daemon.path };
  await Deno.writeTextFile(`${directory}/config`, JSON.stringify(config));
  const { code, stdout, stderr } = await new Deno.Command("bash", {
    args: ["-c", script],
    cwd: directory,
    env: {
      PATH: Deno.env.get("PATH") ?? "",
      CNI_COMMAND: "ADD",
      ...ENV,
      BIN,
      PLUGIN: `${BIN}/static`,
      CONFIG: `${directory}/config`,
      ...env,
    },
    clearEnv: true,
  }).output();
  await Deno.remove(directory, { recursive: true });
  const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  return {
    code,
    stdout: decode(stdout),
    stderr: decode(stderr),
    asked: daemon.requests.length,
  };
}

const HANDED = { code: 0, stdout: "{}", stderr: "", asked: 1 };

test("a call is handed over in any environment", async (t) => {
  const large: Reply = ({ say }) =>
    say({ stdout: "x".repeat(1_000_000), exitCode: 0 });
  const rows: Record<
    string,
    [script: string, expected?: Partial<typeof HANDED>, reply?: Reply]
  > = {
    "stdin is a file": ["$PLUGIN < $CONFIG"],
    "stdin is a pipe in pieces": [
      "{ head -c 9 $CONFIG; sleep 0.1; tail -c +10 $CONFIG; } | $PLUGIN",
    ],
    "stdin is non-blocking": [
      "{ sleep 0.2; cat $CONFIG; } | { dd iflag=nonblock count=0 status=none; exec $PLUGIN; }",
    ],
    "stdout is closed": ["$PLUGIN < $CONFIG >&-", { stdout: "" }],
    "stderr is closed": ["$PLUGIN < $CONFIG 2>&-"],
    "stdout is full": [
      "$PLUGIN < $CONFIG > /dev/full",
      { code: 1, stdout: "", stderr: "Cannot write to stdout\n" },
    ],
    "nobody reads stdout": [
      "{ sleep 0.2; $PLUGIN < $CONFIG; echo $? >&2; } | true",
      { stdout: "", stderr: "Cannot write to stdout\n1\n" },
    ],
    "nobody reads stdout, and SIGPIPE is ignored": [
      "{ trap '' PIPE; sleep 0.2; $PLUGIN < $CONFIG; echo $? >&2; } | true",
      { stdout: "", stderr: "Cannot write to stdout\n1\n" },
    ],
    "stdout is non-blocking and full": [
      "{ dd oflag=nonblock count=0 status=none < /dev/null; exec $PLUGIN < $CONFIG; } | { sleep 0.2; wc -c; }",
      { stdout: "1000000\n" },
      large,
    ],
    "the process may have three descriptors more": [
      "ulimit -n 6; exec $PLUGIN < $CONFIG",
    ],
    "there is no memory for the engine": [
      "ulimit -v 200000; exec $PLUGIN < $CONFIG",
    ],
    "the program's name has no directory": [
      "exec -a static $PLUGIN < $CONFIG",
    ],
    "the program has a name in /proc": [
      "exec 9< $PLUGIN; exec -a static /proc/self/fd/9 < $CONFIG",
    ],
    "the working directory is deleted": [
      "mkdir here; cd here; rmdir ../here; exec $PLUGIN < $CONFIG",
    ],
    "libraries are preloaded": [
      "LD_PRELOAD=libm.so.6 LD_BIND_NOW=1 exec $PLUGIN < $CONFIG",
    ],
    "it is stopped meanwhile": [
      "$PLUGIN < $CONFIG & sleep 0.1; kill -STOP $!; sleep 0.3; kill -CONT $!; wait $!",
      {},
      async ({ say }): Promise<void> => {
        await new Promise((resolve) => setTimeout(resolve, 250));
        await say(DONE);
      },
    ],
  };
  await eachRow(
    t,
    Object.entries(rows),
    async ([, [script, expected, reply]]) => {
      const ended = await runScript(script, reply ? { reply } : {});
      assertEquals(ended, { ...HANDED, ...expected });
    },
  );
});

test("a call that runs locally gets its stdin only", async (t) => {
  const rows: Record<string, string> = {
    "stdin is closed": "$PLUGIN <&-",
    "stdin is empty": "$PLUGIN < /dev/null",
    "stdin is a directory": "$PLUGIN < /",
    "stdin is longer than allowed":
      "{ cat $CONFIG; head -c 17000000 /dev/zero; } | $PLUGIN",
    "the daemon is not there": "$PLUGIN < $CONFIG",
  };
  await eachRow(t, Object.entries(rows), async ([, script]) => {
    const options = { daemonSocket: "/nonexistent/daemon.sock" };
    const alone = { ...options, env: { CNI_NO_DAEMON: "1" } };
    assertEquals(
      await runScript(script, options),
      await runScript(script, alone),
    );
  });
});

test("a call that the daemon declines has no additional descriptor", async () => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  await Deno.writeTextFile(
    `${directory}/foreign`,
    `#!/bin/sh\nls -l /proc/$PPID/fd 2>/dev/null | grep -c socket: > ${directory}/count\n` +
      'echo \'{"cniVersion":"1.1.0","ips":[]}\'\n',
    { mode: 0o755 },
  );
  const plugins = [{ type: "foreign" }];
  await using daemon = new FakeDaemon(({ say }) => say({ declined: "no" }));
  const config = { cniVersion: "1.1.0", name: "n", type: "chain", plugins };
  /** Counts sockets: the fewest of three runs, because others are closed meanwhile. */
  const count = async (keys: JsonObject): Promise<number> => {
    const counts: number[] = [];
    for (let times = 0; times < 3; times++) {
      await run({
        name: "chain",
        config: { ...config, ...keys },
        env: { CNI_PATH: directory, PATH: Deno.env.get("PATH") ?? "" },
      });
      counts.push(Number(await Deno.readTextFile(`${directory}/count`)));
    }
    return Math.min(...counts);
  };
  assertEquals(await count({ daemonSocket: daemon.path }), await count({}));
  assertEquals(daemon.requests.length, 3);
  await Deno.remove(directory, { recursive: true });
});

/** How a daemon stands still that has a call, and the exit code of the call. */
const STANDING_STILL: readonly [name: string, StandStill, code: number][] = [
  ["it waits in the kernel", "D", 0],
  ["it waits for an event", "S", 1],
];

testBoth(
  "a call waits for a daemon that the kernel keeps from answering",
  async (t, key) => {
    await eachRow(t, STANDING_STILL, async ([, how, code]) => {
      await using daemon = await BlockedDaemon.start(how);
      const { ended } = start({ config: { ...CONFIG, [key]: daemon.path } });
      await daemon.taken();
      await pause(SILENCE_MS * 1.5);
      await daemon.release();
      const { stdout, code: actual } = await ended;
      assertEquals(actual, code, stdout);
      assertMatch(stdout, code === 0 ? /^{}$/ : /went away before/);
    }, ([name]) => name);
  },
);
