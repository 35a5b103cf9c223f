/**
 * What plugins have in common that create a link of their own in the sandbox, as
 * tests of each: dummy and tap.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import {
  ignoreUnless,
  type Needs,
  rootTest,
} from "../../testing/capabilities.ts";
import { linkNames, runIn } from "../../testing/ip_json.ts";
import {
  type Change,
  CHANGES,
  checkAfterChanges,
  checkPrevResults,
} from "./check_cases.ts";
import { Crash } from "./crash.ts";
import { dualStack } from "./dual_stack.ts";
import { eachStep, testFaultsOfAdd } from "./fault_steps.ts";
import { type Keys, PluginScene } from "./plugin_scene.ts";

/** The plugins. */
export type OwnLinkType = "dummy" | "tap";

/** A host and calls of one of the plugins, with addresses of both families. */
export class OwnLinkScene extends PluginScene {
  constructor(type: OwnLinkType, extras: Keys = {}) {
    super(type, (hosts) => ({ ...dualStack(hosts), type, ...extras }));
  }
}

/** Skips what needs links that this kernel does not have. */
export function needsOwnLink(type: OwnLinkType): Needs {
  const commands = {
    dummy: ["-n", "ip", "link", "add", "x0", "type", "dummy"],
    tap: ["-n", "ip", "tuntap", "add", "mode", "tap", "name", "x0"],
  };
  const { success } = new Deno.Command("unshare", { args: commands[type] })
    .outputSync();
  return ignoreUnless(success, `needs ${type} links`);
}

/** The tests of one plugin. */
export interface OwnLinkTests {
  /** More keys of the configuration. */
  readonly keys?: Keys;
  /** Changes that CHECK must notice, or not, besides those of every plugin. */
  readonly changes: readonly Change[];
  /** How many steps ADD undoes, at the least. */
  readonly atLeast: number;
}

/** Registers the tests of a plugin. */
export function testOwnLink(
  type: OwnLinkType,
  { keys, changes, atLeast }: OwnLinkTests,
): void {
  const needs = needsOwnLink(type);
  const test = (
    name: string,
    body: (t: Deno.TestContext) => void | Promise<void>,
  ): void => rootTest(`${type}.${name}`, needs, body);
  const make = (): OwnLinkScene => new OwnLinkScene(type, keys);

  if (!needs.ignore) {
    testFaultsOfAdd(type, "", {
      make,
      atLeast,
      optional:
        /^write .*\/net\/ipv[46]\/conf\/eth0\/(accept_dad|keep_addr_on_down|(arp|ndisc)_notify)$/,
    });
  }

  test("check() notices everything that was changed", async (t) => {
    const common = CHANGES.filter(([name, where]) =>
      where === "sandbox" || name === "no lease"
    );
    await checkAfterChanges(t, make, [
      ...common,
      [
        "another link",
        "sandbox",
        "ip link del eth0; ip link add eth0 type veth peer name peer0",
        `is not a ${type === "tap" ? "tun" : type}`,
      ],
      ...changes,
    ]);
  });

  test("check() compares with any prevResult", async (t) => {
    using scene = make();
    await checkPrevResults(t, scene, () => []);
  });

  test("add() twice leaves the first interface alone", async () => {
    using scene = make();
    await scene.succeed("ADD");
    const { state } = scene;
    await scene.fail("ADD", [4, 'Cannot add interface "eth0"']);
    assertEquals(scene.state, state);
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

  test("del() needs nothing of what there was", async () => {
    using scene = make();
    const before = scene.state;
    await scene.succeed("DEL");
    await scene.succeed("ADD");
    for (const netns of ["", "/run/netns/never-made", "/proc/4194304/ns/net"]) {
      await scene.succeed("DEL", {}, { env: { CNI_NETNS: netns } });
      assertEquals(scene.hosts.leases(), []);
    }
    const broken = { mtu: "x", owner: -1, bridge: 5, mac: "none" };
    const prevResult = { interfaces: "none" };
    const deleted = await scene.run("DEL", { ...broken, prevResult });
    assertEquals(deleted.exitCode, 0, deleted.stdout);
    assertEquals(scene.state, before);
    await scene.succeed("DEL");
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

  test("add() leaves nothing if IPAM fails", async () => {
    using scene = make();
    const before = scene.state;
    const text = 'failed to find plugin "none"';
    await scene.fail("ADD", [999, text], { ipam: { type: "none" } });
    assertEquals(scene.state, before);
  });

  test("gc() and status() forward to the IPAM plugin", async () => {
    using scene = make();
    await scene.succeed("ADD");
    await scene.succeed("STATUS");
    await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
    assertEquals(scene.hosts.leases(), []);
    const ipam = { type: "none" };
    assertEquals((await scene.run("STATUS", { ipam })).exitCode, 1);
  });
}
