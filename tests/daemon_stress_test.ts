// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * The node daemon in trouble while a runtime attaches and detaches pods, four
 * at a time, with lists that name no daemon. Every call ends, nothing is done
 * twice, and nothing is left.
 *
 * The suite attaches 4 to 16 pods in each case. `CNI_STRESS=200` attaches so many, and
 * prints how long calls took.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { offFile, timeoutsFile } from "../daemon/wire/daemon_socket.ts";
import { pause } from "../base/deadline.ts";
import { findFileId } from "../base/files/same_file.ts";
import { inNetns, type NetNs } from "../ffi/netns.ts";
import { UnixStream } from "../ffi/socket/unix_stream.ts";
import { encodeMessage, type Message } from "../daemon/wire/request.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import type { ExecOutput } from "../testing/exec_in.ts";
import { snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import {
  createRandom,
  eachAtOnce,
  howOften,
  isLong,
} from "./_harness/repetition.ts";
import { eventually } from "./_harness/eventually.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import {
  type Conversation,
  FakeDaemon,
  type Reply,
} from "./_harness/unix_server.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import { PluginDirectory } from "./_harness/plugin_directory.ts";
import { needsInetRules } from "./_harness/rules.ts";
import { spawnIn } from "./_harness/spawn_in.ts";

const PODS = howOften(16);
const AT_ONCE = 4;
/** Pods where calls do the work themselves, which takes longest. */
const FEW = isLong ? PODS : 2 * AT_ONCE;

const needs = allOf(
  needsBin,
  needsInetRules,
  ignoreUnless(
    hasCommand("nsenter") && hasCommand("prlimit"),
    "needs util-linux",
  ),
);

const LIMITS = {
  ingressRate: 1_000_000,
  ingressBurst: 1_000_000,
  egressRate: 1_000_000,
  egressBurst: 1_000_000,
};

/** Plugins as the result of a call comes to the next. */
type Keys = Readonly<Record<string, unknown>>;

/** Puts a directory at /run/cni, and waits: `sh -c SCRIPT DIRECTORY`. */
const MOUNTS = `mount -t tmpfs tmpfs /run && mkdir /run/cni &&
  mount --bind "$0" /run/cni && echo ready && exec cat`;

/** A node whose daemon has its usual socket, and a runtime. */
class Node implements AsyncDisposable {
  readonly hosts: TestHosts = TestHosts.create();
  readonly #plugins = new PluginDirectory();
  readonly #mounts: Deno.ChildProcess;
  readonly #sandboxes: readonly NetNs[];
  readonly #wrapper: readonly string[];
  #before: unknown;
  #daemon: NodeDaemon | undefined;
  #pods = 0;
  /** Directory of the sockets. */
  readonly directory: string = `${this.hosts.directory}/run`;
  readonly socket: string = `${this.directory}/daemon.sock`;
  /** Violations so far, in words. */
  readonly failures: string[] = [];
  /** How long calls took, in ms. */
  readonly took: number[] = [];
  /** ADDs that failed with their daemon. */
  lostAdds = 0;

  constructor() {
    Deno.mkdirSync(this.directory, { mode: 0o700 });
    this.#mounts = new Deno.Command("unshare", {
      args: ["--mount", "--propagation=private", "sh", "-c", MOUNTS].concat(
        this.directory,
      ),
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#wrapper = ["nsenter", "-t", `${this.#mounts.pid}`, "-m", "-r", "-w"];
    this.#sandboxes = Array.from(
      { length: AT_ONCE },
      () => this.hosts.addNetns(),
    );
    // It says which pods' addresses it was asked for.
    const { path } = this.#plugins;
    this.#plugins.add(
      "counted",
      `echo "$CNI_COMMAND $CNI_CONTAINERID" >> ${path}/calls
      CNI_NO_DAEMON=1 exec ${BIN}/host-local`,
    );
  }

  static async start(): Promise<Node> {
    const node = new Node();
    const reader = node.#mounts.stdout.getReader();
    await reader.read();
    reader.releaseLock();
    // Its first pod makes tables and directories, which stay.
    await node.attachAndDetach(1);
    assertEquals(node.failures, []);
    node.#before = node.#state;
    return node;
  }

  async startDaemon(): Promise<NodeDaemon> {
    return this.#daemon = await NodeDaemon.start(this.hosts, {
      socketDir: this.directory,
      wrapper: this.#wrapper,
    });
  }

  /** Attaches and detaches so many pods, four at a time. */
  async attachAndDetach(
    pods: number,
    onPod: (done: number) => void = () => {},
  ): Promise<void> {
    const free = [...this.#sandboxes];
    let done = 0;
    await eachAtOnce(Array(pods).fill(0), AT_ONCE, async () => {
      const sandbox = free.pop() as NetNs;
      await this.#runPod(`pod${this.#pods++}`, sandbox);
      free.push(sandbox);
      onPod(++done);
    });
  }

  /** Runs the calls of a runtime: DEL follows whatever became of ADD. */
  async #runPod(containerId: string, sandbox: NetNs): Promise<void> {
    const number = Number(containerId.slice(3));
    const list = this.#list(number);
    const pod = { containerId, sandbox };
    let prevResult: unknown;
    for (const plugin of list) {
      const added = await this.#call("ADD", pod, { ...plugin, prevResult });
      if (added.code !== 0) {
        this.#checkFailedAdd(containerId, added);
        break;
      }
      prevResult = JSON.parse(added.stdout);
    }
    for (const plugin of list.toReversed()) {
      const deleted = await this.#call("DEL", pod, { ...plugin, prevResult });
      if (deleted.code !== 0) this.#fail("DEL", containerId, deleted);
    }
  }

  #list(number: number): Keys[] {
    const ipam = this.hosts.hostLocal("10.1.2.0/24");
    const type = number % 2 === 0 ? "host-local" : "counted";
    return [
      { type: "ptp", ipMasq: true, ipam: { ...ipam, type } },
      { type: "bandwidth", ...LIMITS },
      { type: "sbr" },
    ];
  }

  async #call(
    command: string,
    pod: { containerId: string; sandbox: NetNs },
    keys: Keys,
  ): Promise<ExecOutput> {
    const config = { cniVersion: "1.0.0", name: "net1", ...keys };
    const startMs = performance.now();
    const output = await this.call(String(keys["type"]), command, pod, config);
    this.took.push(performance.now() - startMs);
    return output;
  }

  /** Runs a call. */
  call(
    type: string,
    command: string,
    pod: { containerId: string; sandbox: NetNs },
    config: Keys,
  ): Promise<ExecOutput> {
    const [path = "", ...args] = [...this.#wrapper, `${BIN}/${type}`];
    const env = {
      PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
      ...this.hosts.environment(command, pod),
      CNI_PATH: `${this.#plugins.path}:${BIN}`,
    };
    const stdin = JSON.stringify(config);
    return spawnIn(this.hosts.host, { path, args, env, stdin }).output;
  }

  /** An ADD may only fail for the loss of its daemon. */
  #checkFailedAdd(containerId: string, added: ExecOutput): void {
    const isLost = added.stdout.includes("went away before it answered") &&
      JSON.parse(added.stdout).code === 11;
    if (isLost) this.lostAdds++;
    else this.#fail("ADD", containerId, added);
  }

  #fail(command: string, containerId: string, output: ExecOutput): void {
    this.failures.push(`${command} ${containerId}: ${JSON.stringify(output)}`);
  }

  /** Reports whether callers keep away from the daemon. */
  get isOff(): boolean {
    return findFileId(offFile(this.socket)) !== undefined;
  }

  /** Links, routes and rules of all. */
  get #state(): unknown {
    const { host } = this.hosts;
    const sandboxes = this.#sandboxes.map((sandbox) => snapshot(sandbox));
    return [snapshot(host), actingRules(host), sandboxes];
  }

  /** Asserts that everything is as before, and that nobody's address was asked for twice. */
  async assertWell(): Promise<void> {
    assertEquals(this.failures, []);
    const daemon = this.#daemon ?? await this.startDaemon();
    await eventually(
      "callers come back",
      () =>
        [offFile(this.socket), timeoutsFile(this.socket)]
          .every((path) => findFileId(path) === undefined),
    );
    const busy = ["running", "waiting"].map((it) => `cni_daemon_calls_${it}`)
      .concat("cni_daemon_link_deletions_unacknowledged");
    for (const sample of busy) {
      await eventually(
        `there are no ${sample}`,
        async () => await daemon.metric(sample) === 0,
      );
    }
    assertEquals(this.#state, this.#before);
    assertEquals(this.hosts.leases(), []);
    const added = this.#plugins.read("calls").split("\n")
      .filter((line) => line.startsWith("ADD "));
    assertEquals(added.length, new Set(added).size, `${added}`);
    // It is as useful as before.
    const before = (await daemon.story()).length;
    await this.attachAndDetach(1);
    assertEquals(this.failures, []);
    await eventually(
      "6 calls",
      async () => (await daemon.story()).length === before + 6,
    );
    if (isLong) this.#print();
  }

  #print(): void {
    const sorted = this.took.toSorted((a, b) => a - b).map(Math.round);
    const at = (part: number): number =>
      sorted[Math.floor((sorted.length - 1) * part)] ?? 0;
    const ms = { half: at(0.5), most: at(0.99), all: at(1) };
    console.log({ calls: sorted.length, lostAdds: this.lostAdds, ms });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.[Symbol.asyncDispose]();
    await this.#mounts.stdin.close();
    await this.#mounts.stdout.cancel();
    await this.#mounts.status;
    this.#plugins[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

/** Defines a test of a node with a daemon. */
function test(
  name: string,
  work: (node: Node, daemon: NodeDaemon) => Promise<void>,
): void {
  rootTest(`daemon: ${name}`, needs, async () => {
    await using node = await Node.start();
    await work(node, await node.startDaemon());
    await node.assertWell();
  });
}

test("is stopped during calls, and for most pods", async (node, daemon) => {
  const [stop, go] = [Math.ceil(PODS / 8), PODS - AT_ONCE];
  await node.attachAndDetach(PODS, (done) => {
    if (done === stop) daemon.signal("SIGSTOP");
    if (done !== go) return;
    assert(node.isOff);
    daemon.signal("SIGCONT");
  });
});

test("is stopped repeatedly", async (node, daemon) => {
  const random = createRandom(1);
  let isOver = false;
  const disturbing = (async (): Promise<void> => {
    while (!isOver) {
      daemon.signal("SIGSTOP");
      await pause(random.pick([1, 10, 100, 1000]));
      daemon.signal("SIGCONT");
      await pause(random.pick([1, 10, 100]));
    }
  })();
  await node.attachAndDetach(PODS);
  isOver = true;
  await disturbing;
});

test("runs out of memory", async (node, daemon) => {
  const limit = 1024 * virtualMemory(daemon) + 65_536;
  const args = [`--pid=${daemon.pid}`, `--as=${limit}`, "--core=0"];
  assert(new Deno.Command("prlimit", { args }).outputSync().success);
  await node.attachAndDetach(FEW);
  await daemon[Symbol.asyncDispose]();
  await node.startDaemon();
});

/** Returns the size of a daemon's address space, in KiB. */
function virtualMemory({ pid }: NodeDaemon): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(/^VmSize:\s*(\d+) kB$/m.exec(status)?.[1]);
}

test("has a full backlog", async (node, daemon) => {
  daemon.signal("SIGSTOP");
  {
    using waiting = new DisposableStack();
    for (;;) {
      const stream = UnixStream.connect(node.socket);
      if (stream === undefined) break;
      waiting.use(stream);
    }
    await node.attachAndDetach(FEW);
    assertEquals([node.isOff, node.lostAdds], [false, 0]);
    daemon.signal("SIGCONT");
    await node.attachAndDetach(AT_ONCE);
  }
});

/** Ten calls wait for 5 s each, four at a time. */
const SLOW = "half an answer, then nothing";

/** Other programs at the daemon's socket, and whether they say \`taken\` first. */
const REPLIES: Readonly<Record<string, [Reply, { isTaken: boolean }]>> = {
  "garbage": [({ say }) => say(GARBAGE), { isTaken: false }],
  "half a message, then nothing": [
    ({ say, callerGone }) => sayHalf("taken", { say, callerGone }),
    { isTaken: false },
  ],
  "garbage after taken": [({ say }) => say(GARBAGE), { isTaken: true }],
  [SLOW]: [
    ({ say, callerGone }) =>
      sayHalf({ stdout: "{}", exitCode: 0 }, { say, callerGone }),
    { isTaken: true },
  ],
};

const GARBAGE = new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n");

async function sayHalf(
  message: Message,
  { say, callerGone }: Pick<Conversation, "say" | "callerGone">,
): Promise<void> {
  const bytes = encodeMessage(message);
  await say(bytes.subarray(0, -1));
  await callerGone();
}

for (const [name, [reply, options]] of Object.entries(REPLIES)) {
  const isSlow = ignoreUnless(isLong || name !== SLOW, "needs CNI_STRESS");
  const isAsked = allOf(needs, isSlow);
  rootTest(`daemon: a fake daemon sends ${name}`, isAsked, async () => {
    await using node = await Node.start();
    {
      await using program = new FakeDaemon(reply, options);
      Deno.symlinkSync(program.path, node.socket);
      await node.attachAndDetach(isLong ? PODS : AT_ONCE);
      assert(program.requests.length > 0);
    }
    assert(options.isTaken || node.lostAdds === 0);
    await node.assertWell();
  });
}

/** A program of user nobody that listens at a path, and prints what it gets: `perl -e SCRIPT PATH`. */
const NOBODY = `use Socket;
  $SIG{PIPE} = "IGNORE";
  $| = 1;
  socket(L, AF_UNIX, SOCK_STREAM, 0) && bind(L, sockaddr_un($ARGV[0])) or die;
  ($<, $>) = (65534, 65534);
  listen(L, 1000) && print "listening\\n";
  while (accept(C, L)) { syswrite(C, pack("QQ", 5, 0)); print <C>; print "end\\n"; }`;

rootTest(
  "daemon: a program of another user on its socket gets nothing",
  allOf(needs, ignoreUnless(hasCommand("perl"), "needs perl")),
  async () => {
    await using node = await Node.start();
    const program = inNetns(node.hosts.host, () =>
      new Deno.Command("perl", {
        args: ["-e", NOBODY, node.socket],
        stdout: "piped",
      }).spawn());
    let said = "";
    const reading = program.stdout.pipeThrough(new TextDecoderStream())
      .pipeTo(new WritableStream({ write: (text) => void (said += text) }));
    await eventually("it listens", () => said === "listening\n");
    await node.attachAndDetach(FEW);
    await eventually(
      "it has answered all",
      () => said === "listening\n" + "end\n".repeat(6 * FEW),
      () => said,
    );
    program.kill();
    await program.status;
    await reading;
    assertEquals([node.isOff, node.lostAdds], [false, 0]);
    await node.assertWell();
  },
);
