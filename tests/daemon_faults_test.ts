/**
 * The node daemon, killed at its requests to the kernel and to the disk while it
 * attaches or detaches a pod or collects one. One DEL in a process must leave
 * nothing, or GC after GC. A test run kills it at every third request; with
 * `CNI_FAULTS=all` at each.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { dispatch } from "../cni/skel.ts";
import { createInvoker } from "../cni/invoke/in_process.ts";
import { inNetns } from "../ffi/netns.ts";
import type { DispatchInput } from "../cni/call/context.ts";
import { chain } from "../plugins/chain/plugin.ts";
import { findPlugin } from "../plugins/registry.ts";
import { importFlags } from "../scripts/import_flags.ts";
import { rootTest } from "../testing/capabilities.ts";
import { snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { callDaemon } from "./_harness/by_daemon.ts";
import { eachStep } from "./_harness/fault_steps.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { needsInetRules } from "./_harness/rules.ts";

/** A daemon is killed at the first of so many requests. */
const STRIDE = Deno.env.get("CNI_FAULTS") === "all" ? 1 : 3;

const LIMITS = {
  ingressRate: 1_000_000,
  ingressBurst: 1_000_000,
  egressRate: 1_000_000,
  egressBurst: 1_000_000,
};

/** The networks of a pod, by the plugins' names. */
const CHAINS: Readonly<Record<string, (hosts: TestHosts) => Keys[]>> = {
  "ptp, bandwidth, sbr": (hosts) => [
    {
      type: "ptp",
      ipMasq: true,
      ipam: hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
    },
    { type: "bandwidth", ...LIMITS },
    { type: "sbr" },
  ],
  "ptp, portmap, firewall, tuning": (hosts) => [
    { type: "ptp", ipam: hosts.hostLocal("10.1.2.0/24") },
    {
      type: "portmap",
      backend: "nftables",
      runtimeConfig: {
        portMappings: [{ hostPort: 80, containerPort: 80, protocol: "tcp" }],
      },
    },
    { type: "firewall", backend: "nftables" },
    { type: "tuning", mtu: 1400, dataDir: `${hosts.directory}/tuning` },
  ],
};

/** How many requests a call makes at the least: fewer are not all. */
const AT_LEAST = { ADD: 30, DEL: 10, GC: 10 };

type Verb = keyof typeof AT_LEAST;

/** A host, and calls of a pod's plugins on it. */
class Scene implements Disposable {
  readonly hosts = TestHosts.create();
  readonly #plugins: Keys[];
  readonly #before: unknown;
  readonly #verb: Verb;

  constructor(verb: Verb, chain: (hosts: TestHosts) => Keys[]) {
    this.#verb = verb;
    this.#plugins = chain(this.hosts);
    this.#before = this.#state;
  }

  get #state(): unknown {
    const { host, sandbox } = this.hosts;
    return [
      snapshot(host),
      // GC is not told of a sandbox.
      this.#verb === "GC" ? [] : snapshot(sandbox),
      actingRules(host),
      this.hosts.leases("pods"),
      readDirectory(`${this.hosts.directory}/tuning`),
    ];
  }

  input(command: string): DispatchInput {
    const config = {
      cniVersion: "1.1.0",
      name: "pods",
      type: "chain",
      plugins: this.#plugins,
      ...command === "GC" ? { "cni.dev/valid-attachments": [] } : {},
    };
    return {
      env: this.hosts.environment(command),
      stdin: () => new TextEncoder().encode(JSON.stringify(config)),
      invoker: createInvoker(dispatch, findPlugin),
      hostNetns: this.hosts.host.path,
    };
  }

  /** Starts a daemon that kills itself at a step. */
  async startDaemon(step: number): Promise<Deno.ChildProcess> {
    const path = new URL("_harness/dying_daemon.ts", import.meta.url);
    const args = [
      "run",
      "-A",
      "--no-check",
      ...await importFlags(),
      path.pathname,
    ];
    const command = new Deno.Command(Deno.execPath(), {
      args: [...args, `${this.hosts.directory}/run`, String(step)],
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    });
    const child = inNetns(this.hosts.host, () => command.spawn());
    const reader = child.stdout.getReader();
    const { value } = await reader.read();
    assertEquals(new TextDecoder().decode(value), "listening\n");
    reader.releaseLock();
    return child;
  }

  assertNothingIsLeft(when: string): void {
    assertEquals(this.#state, this.#before, when);
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Lists a directory's files; an unfinished one is used again. */
function readDirectory(path: string): string[] {
  try {
    return [...Deno.readDirSync(path)].map(({ name }) => name)
      .filter((name) => name !== ".unfinished");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Kills the daemon at a request of a call; returns whether there was such one. */
async function killAt(
  step: number,
  verb: Verb,
  scene: Scene,
): Promise<true | undefined> {
  if (verb !== "ADD") await run(scene, "ADD");
  const child = await scene.startDaemon(step);
  const socket = `${scene.hosts.directory}/run/daemon.sock`;
  const output = await callDaemon(socket, "chain", scene.input(verb));
  const when = `${verb} killed at request ${step}`;
  if (output !== undefined) assertEquals(output.exitCode, 0, output.stdout);
  if (output !== undefined) child.kill("SIGKILL");
  await child.stdout.cancel();
  await child.status;
  await run(scene, verb === "GC" ? "GC" : "DEL", when);
  scene.assertNothingIsLeft(when);
  return output === undefined ? true : undefined;
}

/** Runs a command in this process. */
async function run(
  scene: Scene,
  verb: Verb,
  when = verb as string,
): Promise<void> {
  const { exitCode, stdout } = await dispatch(chain, scene.input(verb));
  assertEquals(exitCode, 0, `${when}: ${stdout}`);
}

for (const [plugins, makeChain] of Object.entries(CHAINS)) {
  for (const verb of ["ADD", "DEL", "GC"] as const) {
    const next = verb === "GC" ? "GC" : "DEL";
    rootTest(
      `daemon: killed at its requests in ${verb} of ${plugins}, one ${next} leaves nothing`,
      needsInetRules,
      async (t) => {
        const killed = await eachStep(t, async (number) => {
          using scene = new Scene(verb, makeChain);
          return await killAt((number - 1) * STRIDE + 1, verb, scene);
        }, 300);
        const { length } = killed;
        assert(length * STRIDE >= AT_LEAST[verb], `only ${length} requests`);
      },
    );
  }
}
