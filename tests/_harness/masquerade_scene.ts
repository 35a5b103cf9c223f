/**
 * Masquerading, and the tests of it that each plugin with `ipMasq` has.
 *
 * @module
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { connectOutside, OUTSIDE, reached } from "./outside.ts";
import { type Keys, PluginScene } from "./plugin_scene.ts";
import { needsInetRules, needsRuleTools, rulesOf } from "./rules.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";

/** Returns a configuration with these keys. */
export type MakeConfig = (hosts: TestHosts, extras: Keys) => Keys;

/** A host with something to reach, on which a plugin masquerades. */
export class MasqueradeScene extends PluginScene {
  /** The servers to reach. */
  readonly outside: NetNs = connectOutside(this.hosts);

  /** @param ipMasqBackend None is asked for if undefined */
  constructor(type: string, makeConfig: MakeConfig, ipMasqBackend?: string) {
    super(type, (hosts) => makeConfig(hosts, { ipMasq: true, ipMasqBackend }));
  }

  /** All rules of the host, as both programs show them. */
  get rules(): string {
    return rulesOf(this.hosts.host).join("\n");
  }

  /** Asserts that container `test-container` has no rule. */
  assertEnded(): void {
    const { rules } = this;
    assert(!/test-container|CNI-/.test(rules), rules);
  }
}

/** Registers the tests that need nothing but a configuration. */
export function testMasquerade(type: string, makeConfig: MakeConfig): void {
  const makeScene = (backend?: string): MasqueradeScene =>
    new MasqueradeScene(type, makeConfig, backend);
  const test = (
    name: string,
    fn: (t: Deno.TestContext) => Promise<void>,
  ): void =>
    rootTest(`${type}.${name}`, allOf(needsRuleTools, needsInetRules), fn);

  test("add() masquerades by each backend, and DEL ends it", async (t) => {
    for (const backend of [undefined, "nftables", "iptables"]) {
      await t.step(backend ?? "none asked for", async () => {
        using scene = makeScene(backend);
        for (const env of [{}, { CNI_NETNS: "" }]) {
          const { json: prevResult } = await scene.succeed("ADD");
          assertEquals(reached(scene.hosts.sandbox), OUTSIDE);
          assertMatch(scene.rules, /test-container/);
          await scene.succeed("CHECK", { prevResult });
          await scene.succeed("STATUS", { cniVersion: "1.1.0" });
          await scene.succeed("DEL", { prevResult }, { env });
          assertEquals(scene.rules, "");
        }
        await scene.succeed("DEL");
      });
    }
  });

  test("gc() ends it although the key was removed", async (t) => {
    for (const backend of ["nftables", "iptables"]) {
      await t.step(backend, async () => {
        using scene = makeScene(backend);
        await scene.succeed("ADD");
        await scene.succeed("GC", {
          cniVersion: "1.1.0",
          ipMasq: undefined,
          ipMasqBackend: undefined,
          "cni.dev/valid-attachments": [],
        });
        assertEquals(scene.rules, "");
      });
    }
  });

  test("add() masquerades some families only, and with an outbound address", async (t) => {
    for (const backend of ["nftables", "iptables"]) {
      await t.step(backend, async () => {
        using scene = makeScene(backend);
        const { hosts: { host, sandbox }, outside } = scene;
        const own = ["192.0.2.9", "2001:db8:ff::9"];
        // The kernel chooses no deprecated address by itself.
        const script = `ip address add ${own[0]} dev out0
          ip address add ${own[1]} dev out0 nodad preferred_lft 0`;
        runIn(host, "sh", "-ec", script);
        for (const [position, family] of [4, 6].entries()) {
          const keys = { ipMasqFamilies: [family] };
          const { json: prevResult } = await scene.succeed("ADD", keys);
          const expected = OUTSIDE.slice(position, position + 1);
          assertEquals(reached(sandbox), expected);
          await scene.succeed("CHECK", { ...keys, prevResult });
          await scene.succeed("DEL", { ...keys, prevResult });
          assertEquals(scene.rules, "");
        }
        const keys = { outboundAddresses: own };
        const { json: prevResult } = await scene.succeed("ADD", keys);
        // The usual addresses get no answer.
        for (const usual of ["192.0.2.1", "2001:db8:ff::1"]) {
          runIn(outside, "ip", "route", "add", "unreachable", usual);
        }
        assertEquals(reached(sandbox), OUTSIDE);
        await scene.succeed("CHECK", { ...keys, prevResult });
        const masquerade = { outboundAddresses: undefined };
        const text = "The masquerade is missing";
        await scene.fail("CHECK", [999, text], { ...masquerade, prevResult });
        // The configuration has changed: only the new rules are left.
        await scene.succeed("REPAIR", { ...masquerade, prevResult });
        await scene.succeed("CHECK", { ...masquerade, prevResult });
        await scene.fail("CHECK", [999, text], { ...keys, prevResult });
        assertEquals(reached(sandbox), []);
        await scene.succeed("REPAIR", { ...keys, prevResult });
        assertEquals(reached(sandbox), OUTSIDE);
        await scene.succeed("DEL", {}, { env: { CNI_NETNS: "" } });
        assertEquals(scene.rules, "");
      });
    }
  });

  test("add() refuses outbound addresses without use", async () => {
    using scene = makeScene();
    const { state } = scene;
    for (
      const [keys, text] of [
        [{ ipMasqFamilies: [] }, "ipMasqFamilies"],
        [{ ipMasqFamilies: [5] }, "ipMasqFamilies"],
        [{ outboundAddresses: ["none"] }, "outboundAddresses"],
        [
          { outboundAddresses: ["192.0.2.8", "192.0.2.9"] },
          "outboundAddresses: expected one IPv4 address",
        ],
        [
          { ipMasqFamilies: [6], outboundAddresses: ["192.0.2.9"] },
          "outboundAddresses: 192.0.2.9 has no effect: ipMasqFamilies does not include 4",
        ],
      ] as const
    ) {
      await scene.fail("ADD", [7, text], keys);
      assertEquals(scene.state, state);
    }
  });

  test("add() does not masquerade unless it is asked to", async () => {
    using scene = makeScene();
    await scene.succeed("ADD", { ipMasq: false });
    assertEquals(reached(scene.hosts.sandbox), []);
    assertEquals(scene.rules, "");
  });

  test("gc() ends the masquerades of attachments that are not valid", async (t) => {
    for (const backend of ["nftables", "iptables"]) {
      await t.step(backend, async () => {
        using scene = makeScene(backend);
        const { hosts } = scene;
        const add = async (
          containerId: string,
          extras: Keys,
        ): Promise<void> => {
          const sandbox = hosts.addNetns();
          await scene.succeed("ADD", extras, { sandbox, containerId });
        };
        for (const containerId of ["stays", "goes"]) await add(containerId, {});
        const ipam = hosts.hostLocal("10.9.0.0/24");
        await add("elsewhere", { name: "net2", bridge: "br2", ipam });
        const cniVersion = "1.1.0";
        await scene.succeed("GC", { cniVersion });
        assertStringIncludes(scene.rules, "goes");
        const valid = [{ containerID: "stays", ifname: "eth0" }];
        await scene.succeed("GC", {
          cniVersion,
          "cni.dev/valid-attachments": valid,
        });
        assert(!scene.rules.includes("goes"), scene.rules);
        assertStringIncludes(scene.rules, "stays");
        assertStringIncludes(scene.rules, "elsewhere");
      });
    }
  });
}
