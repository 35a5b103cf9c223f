/**
 * What all plugins have in common that create a link in the sandbox, as tests of
 * each.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { type Needs, rootTest } from "../../testing/capabilities.ts";
import { linkNames, runIn } from "../../testing/ip_json.ts";
import { checkPrevResults } from "./check_cases.ts";
import { Crash, eachStep, testFaultsOfAdd } from "./fault_steps.ts";
import type { Keys, PluginScene } from "./plugin_scene.ts";

/** The tests of one plugin. */
export interface SandboxLinkTests {
  readonly needs: Needs;
  readonly make: () => PluginScene;
  /** How many steps ADD undoes, at the least. */
  readonly atLeast: number;
  /** Keys with which ADD would fail; DEL does not. */
  readonly broken: Keys;
}

/** Steps of ADD that may fail without failing it. */
export const OPTIONAL_STEPS =
  /^write .*\/net\/ipv[46]\/conf\/eth0\/(accept_dad|keep_addr_on_down|(arp|ndisc)_notify)$/;

/** Registers the tests of a plugin. */
export function testSandboxLink(
  type: string,
  { needs, make, atLeast, broken }: SandboxLinkTests,
): void {
  const test = (
    name: string,
    body: (t: Deno.TestContext) => void | Promise<void>,
  ): void => rootTest(`${type}.${name}`, needs, body);

  if (!needs.ignore) {
    testFaultsOfAdd(type, "", {
      make,
      atLeast,
      optional: OPTIONAL_STEPS,
    });
  }

  test("check() compares with any prevResult", async (t) => {
    using scene = make();
    await checkPrevResults(t, scene, () => []);
  });

  test("add() is undone by DEL after it was killed at any step", async (t) => {
    const steps = await eachStep(t, async (step) => {
      using scene = make();
      const before = scene.state;
      const crash = new Crash(step);
      await scene.run("ADD");
      crash[Symbol.dispose]();
      // Every other time ADD is repeated first, as some runtimes do.
      if (step % 2 === 0) await scene.run("ADD");
      await scene.succeed("DEL");
      assertEquals(scene.state, before);
      const { json: prevResult } = await scene.succeed("ADD");
      await scene.succeed("CHECK", { prevResult });
      return crash.hasHappened ? true : undefined;
    });
    assert(steps.length >= 5, `only ${steps.length} steps`);
  });

  test("del() leaves links of other attachments", async () => {
    using scene = make();
    const { sandbox } = scene.hosts;
    const { json: prevResult } = await scene.succeed("ADD");
    // As after an ADD that failed because the interface's name was taken.
    await scene.succeed("DEL", { name: "net2" });
    await scene.succeed("DEL", { prevResult }, { containerId: "other" });
    assertEquals(linkNames(sandbox), ["lo", "eth0"]);
    await scene.succeed("DEL", { prevResult });
    runIn(sandbox, "sh", "-ec", "ip link add eth0 type veth peer name peer0");
    await scene.succeed("DEL", { prevResult });
    assertEquals(linkNames(sandbox).length, 3);
  });

  test("del() succeeds without a namespace or a valid result", async () => {
    using scene = make();
    const before = scene.state;
    await scene.succeed("DEL");
    await scene.succeed("ADD");
    for (const netns of ["", "/run/netns/never-made", "/proc/4194304/ns/net"]) {
      await scene.succeed("DEL", {}, { env: { CNI_NETNS: netns } });
      assertEquals(scene.hosts.leases(), []);
    }
    const prevResult = { interfaces: "none" };
    const deleted = await scene.run("DEL", { ...broken, prevResult });
    assertEquals(deleted.exitCode, 0, deleted.stdout);
    assertEquals(scene.state, before);
    await scene.succeed("DEL");
  });
}
