/**
 * The node daemon, killed at each of its requests to the kernel and to the disk
 * while it attaches a pod. One DEL in a process must leave nothing.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { dispatch } from "../cni/skel.ts";
import { createInvoker } from "../cni/invoke/in_process.ts";
import { inNetns } from "../ffi/netns.ts";
import type { DispatchInput } from "../cni/surroundings.ts";
import { chain } from "../plugins/chain/plugin.ts";
import { findPlugin } from "../plugins/registry.ts";
import { importFlags } from "../scripts/net.ts";
import { rootTest } from "../testing/capabilities.ts";
import { snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { callDaemon } from "./_harness/by_daemon.ts";
import { eachStep } from "./_harness/fault_steps.ts";
import { needsInetRules } from "./_harness/rules.ts";

/** How many requests an ADD makes at the least: fewer are not all. */
const AT_LEAST = 30;

/** A host, and calls of a pod's plugins on it. */
class Scene implements Disposable {
  readonly hosts = TestHosts.create();
  readonly #before = this.#state;

  get #state(): unknown {
    const { host, sandbox } = this.hosts;
    return [
      snapshot(host),
      snapshot(sandbox),
      actingRules(host),
      this.hosts.leases("pods"),
    ];
  }

  input(command: string): DispatchInput {
    const rate = { ingressRate: 1_000_000, ingressBurst: 1_000_000 };
    const limits = { ...rate, egressRate: 1_000_000, egressBurst: 1_000_000 };
    const config = {
      cniVersion: "1.0.0",
      name: "pods",
      type: "chain",
      plugins: [
        {
          type: "ptp",
          ipMasq: true,
          ipam: this.hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
        },
        { type: "bandwidth", ...limits },
        { type: "sbr" },
      ],
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
      args: [...args, `${this.hosts.folder}/run`, String(step)],
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

/** Kills the daemon at a step of ADD; returns whether there was such a step. */
async function killAt(step: number): Promise<true | undefined> {
  using scene = new Scene();
  const child = await scene.startDaemon(step);
  const socket = `${scene.hosts.folder}/run/daemon.sock`;
  const added = await callDaemon(socket, "chain", scene.input("ADD"));
  const when = `killed at request ${step}`;
  if (added !== undefined) assertEquals(added.exitCode, 0, added.stdout);
  if (added !== undefined) child.kill("SIGKILL");
  await child.stdout.cancel();
  await child.status;
  const deleted = await dispatch(chain, scene.input("DEL"));
  assertEquals(deleted.exitCode, 0, `${when}: ${deleted.stdout}`);
  scene.assertNothingIsLeft(when);
  return added === undefined ? true : undefined;
}

rootTest(
  "daemon: killed at each of its requests in ADD, one DEL leaves nothing",
  needsInetRules,
  async (t) => {
    const killed = await eachStep(t, killAt, 300);
    assert(killed.length >= AT_LEAST, `only ${killed.length} requests`);
  },
);
