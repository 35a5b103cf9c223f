/**
 * The node daemon's cached listings, with the Go plugin and other processes in the same
 * directory, all of which are killed at random.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { goPlugin, rootTest } from "../../../testing/capabilities.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { BIN, needsBin } from "../../../tests/_harness/executables.ts";
import { NodeDaemon } from "../../../tests/_harness/node_daemon.ts";
import {
  createRandom,
  eachAtOnce,
  howOften,
} from "../../../tests/_harness/repetition.ts";
import { spawnIn } from "../../../tests/_harness/spawn_in.ts";
import { DataDirectory } from "../testing.ts";

/** Number of containers; two thirds remain. */
const CONTAINERS = howOften(120);
const AT_ONCE = 8;
const SEED = 20_261_129;

const go = goPlugin("host-local");
/** The daemon, a process of this project's plugin, and the Go plugin. */
const WAYS = ["daemon", "process", "go"] as const;
type Way = typeof WAYS[number];

/** A directory, and whoever uses it. */
class Node implements AsyncDisposable {
  readonly directory = new DataDirectory();
  readonly random = createRandom(SEED);
  readonly #hosts = TestHosts.create();
  #daemon: NodeDaemon | undefined;
  #starting: Promise<NodeDaemon> | undefined;
  killed = 0;

  async daemon(): Promise<NodeDaemon> {
    this.#starting ??= NodeDaemon.start(this.#hosts);
    return this.#daemon = await this.#starting;
  }

  /** Kills the daemon with the calls that it runs; the next call starts another. */
  async killDaemon(): Promise<void> {
    this.#starting = undefined;
    await this.#daemon?.[Symbol.asyncDispose]();
    this.killed++;
  }

  /** Runs a command, and kills it if it is told to. */
  async run(
    way: Way,
    command: string,
    id: string,
    more: { readonly killAfterMs?: number; readonly valid?: string[] } = {},
  ): Promise<{ code: number; address: string | undefined; said: string }> {
    const { socket } = await this.daemon();
    const config = {
      ...this.directory.config({ subnet: "10.1.0.0/16" }, {
        cniVersion: command === "GC" ? "1.1.0" : "1.0.0",
      }),
      daemonSocket: way === "daemon" ? socket : "",
      ...more.valid && {
        "cni.dev/valid-attachments": more.valid.map((containerID) => ({
          containerID,
          ifname: "eth0",
        })),
      },
    };
    const running = spawnIn(this.#hosts.host, {
      path: way === "go" && go !== undefined ? go : `${BIN}/host-local`,
      args: [],
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: id,
        CNI_NETNS: this.#hosts.sandbox.path,
        CNI_IFNAME: "eth0",
        CNI_PATH: BIN,
        CNI_LOG_FILE: "stderr",
      },
      stdin: JSON.stringify(config),
    });
    const { killAfterMs } = more;
    const timer = killAfterMs === undefined ? undefined : setTimeout(() => {
      running.kill();
      this.killed++;
    }, killAfterMs);
    const { code, stdout, stderr } = await running.output;
    clearTimeout(timer);
    const address = code === 0 && command === "ADD"
      ? String(JSON.parse(stdout).ips[0].address).split("/")[0]
      : undefined;
    return { code, address, said: stdout + stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon?.[Symbol.asyncDispose]();
    this.directory[Symbol.dispose]();
    this.#hosts[Symbol.dispose]();
  }
}

rootTest(
  "host-local's cached listings: killed calls and daemons leave no address leased twice or lost",
  needsBin,
  async () => {
    await using node = new Node();
    const { random, directory } = node;
    /** The containers by their addresses. */
    const alive = new Map<string, string>();
    const ids = Array.from({ length: CONTAINERS }, (_, i) => `container${i}`);

    async function detach(id: string): Promise<void> {
      // A call whose daemon is killed fails, and the runtime repeats it.
      for (;;) {
        const { code } = await node.run(random.pick(WAYS), "DEL", id);
        if (code === 0) return;
      }
    }

    await eachAtOnce(ids, AT_ONCE, async (id) => {
      if (random.once(100)) await node.killDaemon();
      const killAfterMs = random.once(10) ? random.below(40) : undefined;
      const way = random.pick(WAYS);
      const more = killAfterMs === undefined ? {} : { killAfterMs };
      const { code, address } = await node.run(way, "ADD", id, more);
      if (code !== 0 || address === undefined) return await detach(id);
      assertEquals(alive.get(address), undefined, `${address} was given twice`);
      alive.set(address, id);
      if (!random.once(3)) return;
      // Not for the next container before this container is detached.
      await detach(id);
      alive.delete(address);
    });

    const leases = (): Record<string, string> =>
      Object.fromEntries(
        Object.entries(directory.leases())
          .filter(([name]) => !name.startsWith("last_reserved"))
          .sort(),
      );
    const expected = Object.fromEntries(
      [...alive].map(([address, id]) => [address, `${id}\r\neth0`]).sort(),
    );
    // A killed Go plugin leaves an empty file, which is not a lease.
    const held = Object.entries(leases()).filter(([, content]) =>
      content !== ""
    );
    assertEquals(Object.fromEntries(held), expected);
    const valid = [...alive.values()];
    const { code, said } = await node.run("daemon", "GC", "", { valid });
    assertEquals(code, 0, said);
    assertEquals(leases(), expected);
    await eachAtOnce(valid, AT_ONCE, detach);
    assertEquals(leases(), {});
  },
);
