/**
 * Tests that hold for every plugin.
 *
 * @module
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Plugin } from "../cni/plugin.ts";
import type { NetConf } from "../cni/config/types.ts";
import { COMMAND_SINCE, isAtLeast } from "../cni/version.ts";
import { NetNs } from "../ffi/netns.ts";
import { rootTest } from "./capabilities.ts";
import { FaultInjector } from "./fault_injector.ts";
import type { TestHosts } from "./test_hosts.ts";
import {
  type ConformOptions,
  type PluginKeys,
  Scene,
} from "./conform_scene.ts";

export type { ConformOptions, PluginKeys };

/**
 * Registers the tests that every plugin should pass, in throw-away namespaces:
 * ADD, CHECK and DEL in all its versions, ADD twice, DEL twice, without ADD and
 * without a namespace, ADD that fails at each of its steps, GC and STATUS.
 *
 * ```ts ignore
 * conformPlugin(neighbors, (hosts) => [
 *   { type: "ptp", ipam: hosts.hostLocal("10.1.2.0/24") },
 *   { type: "neighbors", neighbors: [{ ip: "10.1.2.200", mac: "02:00:5e:10:00:01" }] },
 * ]);
 * ```
 *
 * @param list Returns the configurations of a list whose last plugin is the one
 *   to test. Those before it are this project's. An IPAM plugin is tested with
 *   the configuration of the plugin that would call it.
 */
export function conformPlugin<Config extends NetConf>(
  plugin: Plugin<Config>,
  list: (hosts: TestHosts) => readonly PluginKeys[],
  options: ConformOptions = {},
): void {
  const test = (
    name: string,
    body: (scene: Scene<Config>, t: Deno.TestContext) => Promise<void>,
  ): void =>
    rootTest(`${plugin.name} conforms: ${name}`, async (t) => {
      using scene = new Scene(plugin, list, options);
      await scene.prepare();
      await body(scene, t);
    });
  test("ADD, CHECK and DEL in every version", addCheckDel);
  test("a second ADD changes nothing, or fails", addTwice);
  test("DEL succeeds if there is nothing to delete", delNothing);
  test("DEL succeeds after the namespace is gone", delLate);
  test("ADD leaves nothing behind if a step fails", addWithFaults);
  test("GC keeps valid attachments, and STATUS succeeds", collectGarbage);
}

async function addCheckDel<C extends NetConf>(
  scene: Scene<C>,
  t: Deno.TestContext,
): Promise<void> {
  const before = scene.state();
  for (const version of scene.plugin.versions) {
    await t.step(version, async () => {
      scene.version = version;
      await scene.runBefore("ADD");
      try {
        await addCheckDelOnce(scene, version);
      } finally {
        await scene.runBefore("DEL");
      }
    });
  }
  assertEquals(scene.state(), before, "DEL leaves something");
}

async function addCheckDelOnce<C extends NetConf>(
  scene: Scene<C>,
  version: string,
): Promise<void> {
  const { json: prevResult } = await scene.succeed("ADD");
  assertEquals(prevResult?.cniVersion, version, "version of the result");
  if (isAtLeast(version, COMMAND_SINCE.CHECK)) {
    const { stdout } = await scene.succeed("CHECK", { prevResult });
    assertEquals(stdout, "", "CHECK prints");
  }
  const { stdout } = await scene.succeed("DEL", { prevResult });
  assertEquals(stdout, "", "DEL prints");
}

async function addTwice<C extends NetConf>(scene: Scene<C>): Promise<void> {
  await scene.runBefore("ADD");
  const before = scene.state();
  await scene.succeed("ADD");
  const added = scene.state();
  const { exitCode, json } = await scene.run("ADD");
  if (exitCode !== 0) assert(json?.msg, "a failure without a message");
  assertEquals(scene.state(), added, "the second ADD changed something");
  await scene.succeed("DEL");
  assertEquals(scene.state(), before, "DEL leaves something");
}

async function delNothing<C extends NetConf>(scene: Scene<C>): Promise<void> {
  await scene.runBefore("ADD");
  const before = scene.state();
  await scene.succeed("DEL");
  assertEquals(scene.state(), before, "DEL without ADD changed something");
  await scene.succeed("ADD");
  for (const _ of ["first", "again"]) {
    await scene.succeed("DEL");
    assertEquals(scene.state(), before, "DEL leaves something");
  }
  for (const CNI_NETNS of ["", "/run/netns/no-such-namespace"]) {
    await scene.succeed("DEL", {}, { CNI_NETNS });
  }
}

async function delLate<C extends NetConf>(scene: Scene<C>): Promise<void> {
  const before = scene.state(true);
  using stack = new DisposableStack();
  const netns = stack.use(NetNs.create());
  const env = { CNI_NETNS: netns.path };
  await scene.runBefore("ADD", netns);
  const { json: prevResult } = await scene.succeed("ADD", {}, env);
  // As if a runtime had lost it: the path leads nowhere.
  const gone = { CNI_NETNS: "/run/netns/no-such-namespace" };
  stack.dispose();
  await scene.succeed("DEL", { prevResult }, gone);
  await scene.runBefore("DEL");
  // The kernel removes the links of a namespace a little later.
  await eventually(() => assertEquals(scene.state(true), before));
}

/** Repeats an assertion until it holds, for at most 10 s. */
async function eventually(assertion: () => void): Promise<void> {
  const end = Date.now() + 10_000;
  for (;;) {
    try {
      return assertion();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

/** A number above the last step of any ADD. */
const MOST_STEPS = 500;

async function addWithFaults<C extends NetConf>(
  scene: Scene<C>,
  t: Deno.TestContext,
): Promise<void> {
  await scene.runBefore("ADD");
  const before = scene.state();
  let isEnd = false;
  for (let step = 1; !isEnd; step++) {
    assert(step < MOST_STEPS, "ADD does not end");
    using fault = new FaultInjector(step, "instead");
    const { exitCode, stdout, stderr } = await scene.run("ADD");
    fault[Symbol.dispose]();
    const failed = fault.steps[step - 1];
    if (failed === undefined) {
      isEnd = true;
      assertEquals(exitCode, 0, stdout);
      await scene.succeed("DEL");
      continue;
    }
    await t.step(`${step}: ${failed}`, async () => {
      if (exitCode === 0) {
        assert(scene.optional?.test(failed), `ADD does without "${failed}"`);
        await scene.succeed("DEL");
      } else {
        assertStringIncludes(stdout, "injected into");
        assert(!stderr.includes("level=error"), stderr);
      }
      assertEquals(scene.state(), before, "ADD leaves something");
    });
  }
  assertEquals(scene.state(), before, "DEL leaves something");
}

async function collectGarbage<C extends NetConf>(
  scene: Scene<C>,
): Promise<void> {
  if (!isAtLeast(scene.version, COMMAND_SINCE.GC)) return;
  await scene.succeed("STATUS");
  await scene.runBefore("ADD");
  const before = scene.state();
  const { json: prevResult } = await scene.succeed("ADD");
  const added = scene.state();
  const { CNI_CONTAINERID: containerID, CNI_IFNAME: ifname } = scene.hosts
    .environment("GC");
  const valid = [{ containerID, ifname }];
  await scene.succeed("GC", { "cni.dev/valid-attachments": valid });
  assertEquals(scene.state(), added, "GC removed a valid attachment");
  await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
  await scene.succeed("DEL", { prevResult });
  assertEquals(scene.state(), before, "DEL after GC leaves something");
}
