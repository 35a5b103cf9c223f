/**
 * A busy node with a daemon: pods come and go, 16 at a time, while callers and
 * the daemon are killed.
 *
 * The suite runs 240 attachments. `CNI_SOAK=10000 deno task test
 * tests/daemon_soak_test.ts` runs so many, and prints figures. With 1000 or more
 * it also compares the daemon's memory with that after its first 100 attachments.
 * The daemon is killed in the first half only.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import type { NetNs } from "../ffi/netns.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import type { ExecOutput } from "../testing/exec_in.ts";
import { runIn, snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { eachAtOnce } from "./_harness/at_once.ts";
import { eventually } from "./_harness/eventually.ts";
import { needsBin } from "./_harness/executables.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import { createRandom } from "./_harness/random.ts";
import { needsInetRules, nftRules } from "./_harness/rules.ts";
import type { Spawned } from "./_harness/spawn_in.ts";

const ATTACHMENTS = Number(Deno.env.get("CNI_SOAK") || 240);
const AT_ONCE = 16;
/** Attachments of the last daemon before it is measured for the first time. */
const WARM = 100;
/** Attachments in all from which on the memory is compared. */
const MANY = 1000;
/** How many calls begin between two kills of a caller, and of the daemon. */
const CALLS_PER_KILL = 6, CALLS_PER_DAEMON = Math.min(250, ATTACHMENTS / 2);
/** How many calls make the daemon collect its garbage, once it is idle. */
const CALLS_PER_COLLECTION = 100;

/** Exit code of a process that SIGKILL has ended. */
const KILLED = 128 + 9;

const needs = allOf(
  needsBin,
  needsInetRules,
  ignoreUnless(hasCommand("flock"), "needs flock"),
);

/** A pod, in the sandbox of one that is gone. */
interface Pod {
  readonly containerId: string;
  readonly sandbox: NetNs;
}

/** How a call ended. */
interface EndedCall extends ExecOutput {
  readonly isKilled: boolean;
  /** Whether the daemon was killed meanwhile. */
  readonly lostDaemon: boolean;
}

/** Memory and descriptors of the daemon's process. */
interface Resources {
  /** Resident memory, in KiB. */
  readonly rss: number;
  /** The files behind its descriptors, without numbers. */
  readonly descriptors: readonly string[];
}

/** A node with a daemon, and calls that are killed. */
class Node implements AsyncDisposable {
  readonly #hosts: TestHosts;
  #daemon: NodeDaemon;
  readonly #sandboxes: readonly NetNs[];
  readonly #before: unknown;
  readonly #random = createRandom(1);
  readonly #running = new Set<Spawned>();
  /** The pod of each address in use. */
  readonly #holders = new Map<string, string>();
  #restarting: Promise<void> | undefined;
  #pods = 0;
  #done = 0;
  /** Whether the daemon is killed, too. */
  killsDaemon = true;
  /** Violations so far, in words. */
  readonly failures: string[] = [];
  readonly figures = { calls: 0, kills: 0, daemonKills: 0, lostAdds: 0 };

  private constructor(hosts: TestHosts, daemon: NodeDaemon) {
    this.#hosts = hosts;
    this.#daemon = daemon;
    this.#sandboxes = Array.from({ length: AT_ONCE }, () => hosts.addNetns());
    this.#before = this.#state;
  }

  static async start(): Promise<Node> {
    using stack = new DisposableStack();
    const hosts = stack.use(TestHosts.create());
    const node = new Node(hosts, await NodeDaemon.start(hosts));
    stack.move();
    return node;
  }

  /** Attaches and detaches so many pods. */
  async run(pods: number): Promise<void> {
    const sandboxes = [...this.#sandboxes];
    await eachAtOnce(Array(pods).fill(0), AT_ONCE, async () => {
      const sandbox = sandboxes.pop() as NetNs;
      const containerId = `soak${this.#pods++}`;
      await this.#attachAndDetach({ containerId, sandbox });
      sandboxes.push(sandbox);
      this.#tellProgress();
    });
    await this.#restarting;
  }

  /** In a long run, prints a line now and then. */
  #tellProgress(): void {
    const done = ++this.#done;
    if (!Deno.env.get("CNI_SOAK") || done % 100 !== 0) return;
    console.log(`${done}/${ATTACHMENTS} attachments`);
  }

  /** Runs the calls of a runtime: DEL follows whatever became of ADD. */
  async #attachAndDetach(pod: Pod): Promise<void> {
    const added = await this.#call("ADD", pod);
    const isAdded = added.code === 0;
    if (isAdded) this.#hold(pod, added);
    else if (!added.isKilled) this.#judgeFailedAdd(pod, added);
    const prevResult = isAdded ? JSON.parse(added.stdout) : undefined;
    if (isAdded) this.#release(prevResult);
    for (let attempt = 1; attempt < 100; attempt++) {
      const deleted = await this.#call("DEL", pod, { prevResult });
      if (deleted.code === 0) return;
      if (!deleted.isKilled) this.#fail("DEL", pod, deleted);
    }
  }

  #hold({ containerId }: Pod, { stdout }: ExecOutput): void {
    const address = addressIn(JSON.parse(stdout));
    const holder = this.#holders.get(address);
    if (holder !== undefined) {
      this.failures.push(`${address} has ${holder}, and now ${containerId}`);
    }
    this.#holders.set(address, containerId);
    const path = `${this.#hosts.folder}/leases/pods/${address}`;
    const lease = Deno.readTextFileSync(path);
    if (lease === `${containerId}\r\neth0`) return;
    this.failures.push(`${address} of ${containerId} is leased to ${lease}`);
  }

  #release(result: unknown): void {
    this.#holders.delete(addressIn(result));
  }

  /** An ADD may only fail for the loss of its daemon. */
  #judgeFailedAdd(pod: Pod, added: EndedCall): void {
    const isLost = added.lostDaemon && JSON.parse(added.stdout).code === 11 &&
      added.stdout.includes("went away before it answered");
    if (isLost) this.figures.lostAdds++;
    else this.#fail("ADD", pod, added);
  }

  #fail(command: string, { containerId }: Pod, output: EndedCall): void {
    const text = JSON.stringify(output);
    this.failures.push(`${command} of ${containerId}: ${text}`);
  }

  /** Runs a call, which may be killed. */
  async #call(
    command: string,
    pod: Pod,
    keys: Readonly<Record<string, unknown>> = {},
  ): Promise<EndedCall> {
    const { daemonKills } = this.figures;
    // A killed daemon's socket takes connections until its process has ended.
    const isRestarting = this.#restarting !== undefined;
    const spawned = this.#start(command, pod, keys);
    this.#running.add(spawned);
    this.#disturb();
    const output = await spawned.output;
    this.#running.delete(spawned);
    const isKilled = output.code === KILLED;
    if (isKilled) this.figures.kills++;
    return {
      ...output,
      isKilled,
      lostDaemon: isRestarting || this.figures.daemonKills > daemonKills,
    };
  }

  #start(
    command: string,
    pod: Partial<Pod>,
    keys: Readonly<Record<string, unknown>> = {},
  ): Spawned {
    const rate = { ingressRate: 1_000_000, ingressBurst: 1_000_000 };
    const limits = { ...rate, egressRate: 1_000_000, egressBurst: 1_000_000 };
    // So few addresses that each is used again soon, and none may be lost.
    const ipam = this.#hosts.hostLocal("10.1.2.0/27");
    const config = {
      cniVersion: "1.1.0",
      name: "pods",
      type: "chain",
      plugins: [
        { type: "ptp", ipMasq: true, ipam },
        { type: "bandwidth", ...limits },
        { type: "sbr" },
      ],
      ...keys,
    };
    return this.#daemon.call("chain", command, { ...pod, config });
  }

  /** Kills somebody now and then, at whatever they are doing. */
  #disturb(): void {
    const { figures } = this;
    figures.calls++;
    const [first, ...others] = this.#running;
    if (figures.calls % CALLS_PER_KILL === 0 && first !== undefined) {
      this.#random.pick([first, ...others]).kill();
    }
    if (!this.killsDaemon || this.#restarting !== undefined) return;
    if (figures.calls % CALLS_PER_DAEMON === 0) {
      figures.daemonKills++;
      this.#restarting = this.#restart();
    }
  }

  async #restart(): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
    this.#daemon = await NodeDaemon.start(this.#hosts);
    this.#restarting = undefined;
  }

  /**
   * Waits until the daemon is idle, and measures it. Its memory is the least
   * of a time in which it has collected its garbage at least once. Calls are
   * one after the other, so that little new garbage comes before the look.
   */
  async measure(): Promise<Resources> {
    const sample = "cni_daemon_link_deletions_unacknowledged";
    await eventually(
      "no call is under way, and no link is left",
      async () =>
        await this.#daemon.metric(sample) === 0 &&
        await this.#daemon.metric("cni_daemon_calls_running") === 0,
    );
    const count = ATTACHMENTS < MANY ? 0 : 2 * CALLS_PER_COLLECTION;
    let { rss } = this.resources;
    await eachAtOnce(Array(count).fill(0), 1, async () => {
      const { code, stdout } = await this.#start("STATUS", {}).output;
      assertEquals(code, 0, stdout);
      rss = Math.min(rss, this.resources.rss);
    });
    // Connections that have just ended are closed meanwhile.
    for (let look = 0; look < 20; look++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      rss = Math.min(rss, this.resources.rss);
    }
    return { ...this.resources, rss };
  }

  /** The daemon's memory and descriptors now. */
  get resources(): Resources {
    const { pid } = this.#daemon;
    const status = Deno.readTextFileSync(`/proc/${pid}/status`);
    const descriptors = [...Deno.readDirSync(`/proc/${pid}/fd`)].map(
      ({ name }) => {
        try {
          const target = Deno.readLinkSync(`/proc/${pid}/fd/${name}`);
          return target.replace(/\d+/g, "N");
        } catch {
          return "closed meanwhile";
        }
      },
    ).sort();
    return { rss: Number(/VmRSS:\s*(\d+)/.exec(status)?.[1]), descriptors };
  }

  /** Runs GC as a runtime without pods does. */
  async collectGarbage(): Promise<void> {
    const keys = { "cni.dev/valid-attachments": [] };
    const { code, stdout } = await this.#start("GC", {}, keys).output;
    assertEquals(code, 0, stdout);
  }

  /** Links, routes and rules of all, and files elsewhere. */
  get #state(): unknown {
    const { host } = this.#hosts;
    const list = "find /run/cni/chain /var/lib/cni 2> /dev/null; true";
    return {
      host: snapshot(host),
      rules: [...actingRules(host), ...nftRules(host, /soak\d/)],
      sandboxes: this.#sandboxes.map(snapshot),
      files: runIn(host, "sh", "-c", list).split("\n").sort(),
    };
  }

  /** Asserts that everything is as before the first pod. */
  assertNothingIsLeft(): void {
    const { folder, host } = this.#hosts;
    assertEquals(this.#state, this.#before);
    const leases = `${folder}/leases`;
    const files = runIn(host, "find", leases, "-type", "f").trim().split("\n");
    const names = files.map((path) => path.slice(leases.length + 1)).sort();
    assertEquals(names, ["pods/last_reserved_ip.0", "pods/lock"]);
    // Fails if somebody holds it.
    runIn(host, "flock", "--nonblock", `${leases}/pods/lock`, "true");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#restarting;
    await this.#daemon[Symbol.asyncDispose]();
    this.#hosts[Symbol.dispose]();
  }
}

// deno-lint-ignore no-explicit-any -- a result as it was printed
function addressIn(result: any): string {
  return result.ips[0].address.split("/")[0];
}

rootTest(
  "daemon: pods come and go while callers and daemons are killed",
  needs,
  async () => {
    const startMs = performance.now();
    await using node = await Node.start();
    const half = Math.floor(ATTACHMENTS / 2);
    await node.run(half);
    node.killsDaemon = false;
    await node.run(WARM);
    const warm = await node.measure();
    await node.run(ATTACHMENTS - half - WARM);
    const last = await node.measure();
    if (Deno.env.get("CNI_SOAK")) {
      const seconds = Math.round((performance.now() - startMs) / 1000);
      const rss = [warm, last].map((one) => one.rss);
      const descriptors = [warm, last].map((one) => one.descriptors.length);
      console.log({ ATTACHMENTS, seconds, ...node.figures, rss, descriptors });
    }
    assertEquals(node.failures, []);
    node.assertNothingIsLeft();
    await node.collectGarbage();
    node.assertNothingIsLeft();
    assert(node.figures.kills > 0 && node.figures.daemonKills > 0);
    const descriptors = warm.descriptors.length;
    await eventually(
      `the daemon has ${descriptors} descriptors, as before`,
      () => node.resources.descriptors.length <= descriptors,
    );
    if (ATTACHMENTS < MANY) return;
    const change = last.rss / warm.rss;
    assert(change > 0.9 && change < 1.1, `the memory is ${change} of before`);
  },
);
