/**
 * Pods of a real containerd whose network list lacks a plugin. Each retry leaves
 * an address behind, unless something of this project takes it back.
 *
 * With `CNI_LEAKED_PODS=300`, so many pods are tried, and leases become as old as
 * they do by themselves.
 */

import { assert, assertEquals } from "@std/assert";
import { allOf, ignoreUnless, rootTest } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { Containerd, needsContainerd } from "./_harness/containerd.ts";
import { eventually } from "./_harness/eventually.ts";
import { BIN } from "./_harness/executables.ts";
import { peerDirectories } from "./_harness/peers.ts";

/** How many pods are tried; undefined where the test is to be short. */
const PODS = Number(Deno.env.get("CNI_LEAKED_PODS") ?? 0) || undefined;
/** Pods that run all the time. */
const LIVING = 2;
/** A /29 has five addresses for pods, a /27 has 29. */
const SUBNET = PODS === undefined ? "10.88.0.0/29" : "10.88.0.0/27";
const ADDRESSES = (PODS === undefined ? 5 : 29) - LIVING;

/** Links all plugins of a directory into another one. */
function linkAll(from: string, to: string): void {
  Deno.mkdirSync(to);
  for (const { name, isDirectory } of Deno.readDirSync(from)) {
    if (!isDirectory) Deno.copyFileSync(`${from}/${name}`, `${to}/${name}`);
  }
}

/** A node whose list lacks its third plugin, `late`. */
class Scene implements AsyncDisposable {
  readonly hosts: TestHosts;
  readonly bin: string;
  readonly containerd: Containerd;
  /** Addresses of the pods that run all the time, by their IDs. */
  readonly #living = new Map<string, readonly string[]>();

  private constructor(hosts: TestHosts, bin: string, containerd: Containerd) {
    [this.hosts, this.bin, this.containerd] = [hosts, bin, containerd];
  }

  static async start(
    { from = BIN, isChain = false, hasDaemon = false },
  ): Promise<Scene> {
    const hosts = TestHosts.create();
    const bin = `${hosts.directory}/plugins`;
    linkAll(from, bin);
    const plugins = [
      {
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        ipMasq: true,
        ipam: hosts.hostLocal(SUBNET),
      },
      { type: "portmap", capabilities: { portMappings: true } },
      { type: "late" },
    ];
    const list = isChain
      ? [{ type: "chain", capabilities: { portMappings: true }, plugins }]
      : plugins;
    const options = { bin, hasDaemon };
    const containerd = await Containerd.start(hosts, list, options);
    const scene = new Scene(hosts, bin, containerd);
    scene.addLate();
    for (let number = 0; number < LIVING; number++) {
      const id = await containerd.run(`living${number}`);
      scene.#living.set(id, await containerd.addresses(id));
    }
    Deno.removeSync(`${bin}/late`);
    return scene;
  }

  /** Tries pods; returns how many have failed, by the reason. */
  async tryPods(count: number): Promise<Record<string, number>> {
    const reasons: Record<string, number> = {};
    for (let number = 0; number < count; number++) {
      const reason = await this.tryPod(`pod${number}`);
      reasons[reason] = (reasons[reason] ?? 0) + 1;
    }
    return reasons;
  }

  async tryPod(name: string): Promise<string> {
    try {
      const id = await this.containerd.run(name);
      const given = await this.containerd.addresses(id);
      await this.containerd.remove(id);
      const taken = new Set([...this.#living.values()].flat());
      return taken.isDisjointFrom(new Set(given)) ? "none" : "taken";
    } catch (error) {
      const [reason = String(error)] =
        /no IP addresses available|failed to find plugin/.exec(String(error)) ??
          [];
      return reason;
    }
  }

  /** Installs the plugin that is missing. */
  addLate(): void {
    // The result of the plugin before, in a list of few keys.
    const script = `#!/bin/sh
stdin=$(cat)
[ "$CNI_COMMAND" = ADD ] || exit 0
echo "$stdin" | sed 's/^.*"prevResult":\\(.*\\),"type":"late"}$/\\1/'
`;
    Deno.writeTextFileSync(`${this.bin}/late`, script, { mode: 0o755 });
  }

  /** The end of the node daemon's log. */
  get log(): string {
    const path = `${this.hosts.directory}/containerd/daemon`;
    return Deno.readTextFileSync(path).slice(-4000);
  }

  /** How many addresses are leased that no living pod has. */
  get leases(): number {
    const living = [...this.#living.values()].flat();
    const leases = this.hosts.leases("pods");
    assertEquals(living.filter((ip) => !leases.includes(ip)), []);
    return leases.length - living.length;
  }

  /** Makes leases older than the grace period. */
  age(): void {
    if (PODS !== undefined) return;
    for (const ip of this.hosts.leases("pods")) {
      Deno.utimeSync(`${this.hosts.directory}/leases/pods/${ip}`, 1, 1);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.containerd[Symbol.asyncDispose]();
    this.hosts[Symbol.dispose]();
  }
}

/** The longest wait until orphans of a minute are gone, in ms. */
const HEALING_MS = 240_000;
const TRIED = PODS ?? ADDRESSES + 2;

rootTest(
  "Go plugins leak the addresses of pods whose plugin is missing",
  allOf(
    needsContainerd,
    ignoreUnless(peerDirectories().length > 0, "needs the Go plugins"),
  ),
  async () => {
    await using scene = await Scene.start({
      from: peerDirectories().at(-1)?.directory ?? "",
    });
    assertEquals(await scene.tryPods(TRIED), {
      "failed to find plugin": ADDRESSES,
      "no IP addresses available": TRIED - ADDRESSES,
    });
    scene.addLate();
    scene.age();
    assertEquals(await scene.tryPod("last"), "no IP addresses available");
  },
);

rootTest(
  "a chain whose plugin is missing leaks nothing",
  needsContainerd,
  async () => {
    await using scene = await Scene.start({ isChain: true });
    assertEquals(await scene.tryPods(TRIED), {
      "failed to find plugin": TRIED,
    });
    assertEquals(scene.leases, 0);
    scene.addLate();
    assertEquals(await scene.tryPods(ADDRESSES), { none: ADDRESSES });
    assertEquals(scene.leases, 0);
  },
);

rootTest(
  "host-local reuses addresses that a list with a missing plugin leaked",
  needsContainerd,
  async () => {
    await using scene = await Scene.start({});
    const reasons = await scene.tryPods(PODS ?? ADDRESSES);
    assert((reasons["failed to find plugin"] ?? 0) >= ADDRESSES);
    if (PODS !== undefined) {
      console.log("while the plugin is missing:", reasons);
    }
    assertEquals(scene.leases, ADDRESSES);
    scene.addLate();
    scene.age();
    if (PODS !== undefined) await untilOld();
    assertEquals(await scene.tryPods(TRIED), { none: TRIED });
    assertEquals(scene.leases, 0);
  },
);

/** Waits until the grace period is over. */
async function untilOld(): Promise<void> {
  const startMs = Date.now();
  await eventually(
    "a minute is over",
    () => Date.now() - startMs > 61_000,
    () => "",
    HEALING_MS,
  );
}

rootTest(
  "the node daemon releases addresses that a list with a missing plugin leaked",
  allOf(needsContainerd, ignoreUnless(PODS !== undefined, "CNI_LEAKED_PODS")),
  async () => {
    await using scene = await Scene.start({ hasDaemon: true });
    const reasons = await scene.tryPods(TRIED);
    assert((reasons["failed to find plugin"] ?? 0) >= ADDRESSES);
    console.log("while the plugin is missing:", reasons);
    const startMs = Date.now();
    await eventually(
      "no lease is left",
      () => scene.leases === 0,
      () => `but ${scene.leases}: ${scene.log}`,
      HEALING_MS,
    );
    console.log("no lease after", Date.now() - startMs, "ms");
    scene.addLate();
    assertEquals(await scene.tryPods(TRIED), { none: TRIED });
  },
);
