/**
 * VLANs from ADD to DEL. A table replaces the kernel's VLANs, since few kernels
 * of test machines have bridges with VLANs. If the kernel has them,
 * `tests/conformance/bridge_vlan_test.ts` tests the same with real ones.
 */

import { assert, assertEquals } from "@std/assert";
import {
  bridgeConfig,
  needsNoBridgeVlans,
  occupy,
  switchConfig,
} from "./testing/bridge_network.ts";
import {
  assertFailure,
  assertSuccess,
} from "../../tests/_harness/call_outcome.ts";
import { requireRoot, rootTest } from "../../testing/capabilities.ts";
import { BridgeVlansInstead } from "./testing/fake_vlans.ts";
import {
  canPing,
  ipJson,
  linkNames,
  runIn,
  stockOf,
} from "../../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

type Config = Record<string, unknown>;

const TRUNK = [{ id: 101 }, { minID: 103, maxID: 104 }];
const ACCESS = "100 pvid untagged", NATIVE = "1 pvid untagged";

/** A temporary host with fake VLANs of bridges. */
class Fixture implements Disposable {
  readonly hosts = TestHosts.create();
  readonly #vlans = new BridgeVlansInstead();

  async run(command: string, config: Config): Promise<CallOutput["json"]> {
    const output = await this.hosts.run("bridge", command, config);
    assertSuccess(output);
    return output.json;
  }

  /** Lists the VLANs of a link of the host. */
  vlansOf(name: string): string[] {
    return this.#vlans.table.list(this.#indexOf(name));
  }

  /** Changes the VLANs of a link of the host. */
  tamper(name: string, vlans: readonly string[]): void {
    this.#vlans.table.set(this.#indexOf(name), vlans);
  }

  #indexOf(name: string): number {
    return ipJson(this.hosts.host, "link", "show", name)[0].ifindex;
  }

  names(): string[] {
    return linkNames(this.hosts.host);
  }

  [Symbol.dispose](): void {
    this.#vlans[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

const ROWS: [name: string, extras: Config, want: string[]][] = [
  ["BR-5 a VLAN", { vlan: 100 }, [ACCESS]],
  ["BR-6 a trunk", { vlanTrunk: TRUNK }, [NATIVE, "101", "103", "104"]],
  ["BR-7 both", { vlan: 100, vlanTrunk: TRUNK }, [ACCESS, "101", "103", "104"]],
  [
    "BR-8 the default VLAN preserved",
    { vlan: 100, preserveDefaultVlan: true },
    ["1 untagged", ACCESS],
  ],
];

rootTest("bridge.add() gives the port the requested VLANs", async (t) => {
  for (const bridge of ["a new bridge", "a bridge that is there"]) {
    await eachRow(t, ROWS, async ([, extras, want]) => {
      using fixture = new Fixture();
      if (bridge !== "a new bridge") await occupy(fixture.hosts);
      const config = switchConfig(extras);
      const prevResult = await fixture.run("ADD", config);
      const port = prevResult.interfaces[1].name;
      assertEquals(fixture.vlansOf(port), want);
      await fixture.run("CHECK", { ...config, prevResult });
      fixture.tamper(port, [NATIVE]);
      const checked = await fixture.hosts.run("bridge", "CHECK", {
        ...config,
        prevResult,
      });
      assertFailure(checked, 999, `"${port}" lacks VLAN`);
      await fixture.run("DEL", config);
      assert(!fixture.names().includes(port));
    }, ([name]) => `${name}, ${bridge}`);
  }
});

rootTest("BR-9 bridge.add() adds a host address in the VLAN", async (t) => {
  await eachRow(t, [false, true], async (preserveDefaultVlan) => {
    using fixture = new Fixture();
    const { hosts } = fixture;
    const config = bridgeConfig(hosts, { vlan: 100, preserveDefaultVlan });
    const prevResult = await fixture.run("ADD", config);
    const addressesOf = (name: string): string[] =>
      ipJson(hosts.host, "address", "show", name)[0].addr_info
        .filter(({ scope }: Config) => scope === "global")
        .map(({ local }: Config) => local);
    const [bridge, port, , gateway, ...others] = prevResult.interfaces;
    assertEquals([bridge.name, gateway.name, others], ["br0", "br0.100", []]);
    assertEquals(
      gateway.mac,
      ipJson(hosts.host, "link", "show", "br0.100")[0].address,
    );
    assertEquals([addressesOf("br0"), addressesOf("br0.100")], [[], [
      "10.1.2.1",
      "2001:db8:1::1",
    ]]);
    assertEquals(fixture.names().length, 5);
    const [hostPort = ""] = fixture.names().filter((name) =>
      /^veth/.test(name) && name !== port.name
    );
    const want = preserveDefaultVlan ? ["1 untagged", ACCESS] : [ACCESS];
    assertEquals([fixture.vlansOf(hostPort), fixture.vlansOf(port.name)], [
      want,
      want,
    ]);
    // The kernel's bridge has no VLANs, so nothing blocks the packets.
    assert(canPing(hosts.sandbox, "10.1.2.1"));
    const withResult = { ...config, prevResult };
    await fixture.run("CHECK", withResult);
    runIn(hosts.host, "ip", "addr", "del", "10.1.2.1/24", "dev", "br0.100");
    const checked = await hosts.run("bridge", "CHECK", withResult);
    assertFailure(
      checked,
      999,
      'Interface "br0.100" lacks address 10.1.2.1/24',
    );
    await fixture.run("DEL", config);
    // The next attachment uses the existing interface.
    await fixture.run("ADD", config);
    assertEquals(fixture.names().length, 5);
  }, (preserveDefaultVlan) => `preserveDefaultVlan ${preserveDefaultVlan}`);
});

Deno.test({
  ...requireRoot(
    "bridge.add() leaves nothing if the kernel does not support bridge VLANs",
    needsNoBridgeVlans,
  ),
  async fn(t): Promise<void> {
    for (const extras of [{ vlan: 100 }, { vlanTrunk: TRUNK }]) {
      await eachRow(t, ["no bridge", "a bridge"], async (bridge) => {
        using hosts = TestHosts.create();
        if (bridge === "a bridge") await occupy(hosts);
        const object = bridge === "a bridge"
          ? `link ${ipJson(hosts.host, "link", "show", "br0")[0].ifindex}`
          : '"br0"';
        const before = stockOf(hosts);
        const config = bridgeConfig(hosts, {
          ...extras,
          ipMasq: true,
          macspoofchk: true,
        });
        const added = await hosts.run("bridge", "ADD", config);
        const [key] = Object.keys(extras);
        assertFailure(
          added,
          999,
          "the kernel has no VLAN filtering for bridges " +
            "(CONFIG_BRIDGE_VLAN_FILTERING), which is needed for " +
            `"${key}": RTM_NEWLINK ${object}: EOPNOTSUPP`,
        );
        assertEquals(stockOf(hosts), before);
        assertEquals(hosts.leases(), []);
        assertSuccess(await hosts.run("bridge", "DEL", config));
      }, (bridge) => `${JSON.stringify(extras)}, ${bridge}`);
    }
  },
});
