/**
 * DEL of multus after a loss of power, which may have left of any file any
 * beginning, or zeros: what either the scratch file or libcni's cache still
 * knows is undone.
 */

import { assert, assertEquals } from "@std/assert";
import type { Invocation, Invoker } from "../../../cni/call/context.ts";
import { dispatch } from "../../../cni/skel.ts";
import { multus } from "../plugin.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { listFiles } from "../testing/scene.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** Answers for all plugins, and remembers the attachments that DEL is run for. */
class Answering implements Invoker {
  readonly deleted = new Set<string>();

  invoke({ env, stdin }: Invocation): Promise<string> {
    const { name } = JSON.parse(new TextDecoder().decode(stdin));
    if (env["CNI_COMMAND"] !== "DEL") {
      return Promise.resolve('{"cniVersion":"1.0.0"}');
    }
    this.deleted.add(`${name} ${env["CNI_IFNAME"]}`);
    return Promise.resolve("");
  }
}

const CONTAINER = "c1";
/** The attachments, in the order in which they are made. */
const NAMES = ["master eth0", "blue net1", "green net2"];

/** A node on which a container is attached to three networks, as often as is asked for. */
class Node implements Disposable {
  readonly hosts = TestHosts.create();
  readonly cniDir = `${this.hosts.directory}/multus`;
  readonly invoker = new Answering();
  #files = new Map<string, Uint8Array>();

  /** Attaches it, and keeps what is on disk. */
  async attach(): Promise<void> {
    const { exitCode, stdout } = await this.#run("ADD");
    assertEquals(exitCode, 0, stdout);
    const names = [
      ...listFiles(this.cniDir),
      ...listFiles(`${this.cniDir}/results`).map((name) => `results/${name}`),
    ];
    this.#files = new Map(
      names.map((name) => [name, Deno.readFileSync(`${this.cniDir}/${name}`)]),
    );
  }

  /** The files, by what DEL can learn from each. */
  get files(): { scratch: string; results: string[] } {
    const names = [...this.#files.keys()];
    return {
      scratch: CONTAINER,
      results: names.filter((name) => name.startsWith("results/")),
    };
  }

  sizeOf(file: string): number {
    return this.#files.get(file)?.length ?? 0;
  }

  /**
   * Puts the files back, except those that are damaged, and runs DEL, which
   * must succeed quietly.
   *
   * @returns The attachments that it was run for
   */
  async delAfter(
    damage: (file: string, bytes: Uint8Array) => Uint8Array,
  ): Promise<string[]> {
    Deno.mkdirSync(`${this.cniDir}/results`, { recursive: true });
    for (const [name, bytes] of this.#files) {
      Deno.writeFileSync(`${this.cniDir}/${name}`, damage(name, bytes));
    }
    this.invoker.deleted.clear();
    const { exitCode, stdout } = await this.#run("DEL");
    assertEquals([exitCode, stdout], [0, ""]);
    assertEquals(listFiles(this.cniDir), []);
    return [...this.invoker.deleted].sort();
  }

  async #run(
    command: string,
  ): Promise<{ exitCode: number; stdout: string }> {
    const conf = JSON.stringify({
      cniVersion: "1.0.0",
      name: "multus-cni-network",
      type: "multus",
      cniDir: this.cniDir,
      logToStderr: false,
      delegates: [
        {
          cniVersion: "1.0.0",
          name: "master",
          plugins: [{ type: "ptp" }, { type: "bandwidth" }],
        },
        { cniVersion: "1.0.0", name: "blue", type: "bridge" },
        { cniVersion: "1.0.0", name: "green", type: "ptp" },
      ],
    });
    return await dispatch(multus, {
      env: this.hosts.environment(command, { containerId: CONTAINER }),
      stdin: () => new TextEncoder().encode(conf),
      invoker: this.invoker,
      hostNetns: this.hosts.host.path,
    });
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Possible remains of a file, by how much of it reached the disk. */
const DAMAGES: Record<string, (bytes: Uint8Array, kept: number) => Uint8Array> =
  {
    "cut off": (bytes, kept) => bytes.subarray(0, kept),
    "zeros from there on": (bytes, kept) => bytes.slice().fill(0, kept),
  };

for (const [name, damage] of Object.entries(DAMAGES)) {
  rootTest(
    `multus' DEL detaches everything with a file ${name} at any byte`,
    async (t) => {
      using node = new Node();
      await node.attach();
      const { scratch, results } = node.files;
      await eachRow(t, [scratch, ...results], async (damaged) => {
        for (let kept = 0; kept < node.sizeOf(damaged); kept++) {
          const deleted = await node.delAfter((file, bytes) =>
            file === damaged ? damage(bytes, kept) : bytes
          );
          assertEquals(deleted, NAMES.toSorted(), `${kept} bytes`);
        }
      });
    },
  );

  rootTest(
    `multus' DEL detaches all recorded networks with two files ${name}`,
    async (t) => {
      using node = new Node();
      await node.attach();
      const { scratch, results } = node.files;
      await eachRow(t, results, async (damaged) => {
        for (let percent = 0; percent < 100; percent++) {
          const deleted = await node.delAfter((file, bytes) =>
            file === scratch || file === damaged
              ? damage(bytes, Math.floor(bytes.length * percent / 100))
              : bytes
          );
          const known = NAMES.filter((attachment) => {
            const [network, ifName] = attachment.split(" ");
            return damaged !== `results/${network}-${CONTAINER}-${ifName}`;
          });
          for (const one of known) {
            assert(deleted.includes(one), `${one} at ${percent} %`);
          }
        }
      }, (damaged) => `${scratch} and ${damaged}`);
    },
  );
}
