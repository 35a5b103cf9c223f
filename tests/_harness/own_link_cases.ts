/**
 * What plugins have in common that create a link of their own in the sandbox, as
 * tests of each: dummy and tap.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import {
  ignoreUnless,
  type Needs,
  rootTest,
} from "../../testing/capabilities.ts";
import { type Change, CHANGES, checkAfterChanges } from "./check_cases.ts";
import { dualStack } from "./dual_stack.ts";
import { type Keys, PluginScene } from "./plugin_scene.ts";
import { testSandboxLink } from "./sandbox_link_cases.ts";

/** The plugins. */
export type OwnLinkType = "dummy" | "tap";

/** Creates a host to call one of the plugins on, with addresses of both families. */
export function ownLinkScene(
  type: OwnLinkType,
  extras: Keys = {},
): PluginScene {
  return new PluginScene(
    type,
    (hosts) => ({ ...dualStack(hosts), type, ...extras }),
  );
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
  const make = (): PluginScene => ownLinkScene(type, keys);

  testSandboxLink(type, {
    needs,
    make,
    atLeast,
    broken: { mtu: "x", owner: -1, bridge: 5, mac: "none" },
  });

  test("check() reports each change", async (t) => {
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

  test("add() twice leaves the first interface alone", async () => {
    using scene = make();
    await scene.succeed("ADD");
    const { state } = scene;
    await scene.fail("ADD", [4, 'Cannot add interface "eth0"']);
    assertEquals(scene.state, state);
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
