/**
 * What one side attaches and the other detaches: every plugin that both have,
 * in both directions, with each release of the Go plugins.
 */

import { assertEquals } from "@std/assert";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import {
  Attachment,
  dualIpam,
  type PluginKeys,
  ptp,
  type Row,
  stateOf,
} from "./_harness/cross_attachment.ts";
import { WIDE } from "../plugins/bandwidth/testing/limited_pair.ts";
import { listPeers, type Who } from "./_harness/parity.ts";
import type { Peer } from "./_harness/peers.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { needsRuleTools } from "./_harness/rules.ts";

function bridge(hosts: TestHosts, keys: Keys = {}): PluginKeys {
  const ipam = dualIpam(hosts);
  const network = { bridge: "br0", isGateway: true };
  return { type: "bridge", ...network, ipam, ...keys };
}

const IPTABLES = { ipMasq: true, ipMasqBackend: "iptables" };
const NFTABLES = { ipMasq: true, ipMasqBackend: "nftables" };
const NO_NFTABLES = { "Go 1.1.1": "masquerades by iptables only" };
const BRIDGE = { sharedLink: "br0" };

const ROWS: Readonly<Record<string, Row>> = {
  "ptp": { plugins: (hosts) => [ptp(hosts)] },
  "ptp, masquerade by iptables": { plugins: (hosts) => [ptp(hosts, IPTABLES)] },
  "ptp, masquerade by nftables": {
    plugins: (hosts) => [ptp(hosts, NFTABLES)],
    impossible: NO_NFTABLES,
  },
  "bridge": {
    plugins: (hosts) => [bridge(hosts, { hairpinMode: true })],
    ...BRIDGE,
  },
  "bridge, masquerade by iptables": {
    plugins: (hosts) => [bridge(hosts, IPTABLES)],
    ...BRIDGE,
  },
  "bridge, masquerade by nftables": {
    plugins: (hosts) => [bridge(hosts, NFTABLES)],
    impossible: NO_NFTABLES,
    ...BRIDGE,
  },
  "bridge, macspoofchk": {
    plugins: (hosts) => [bridge(hosts, { macspoofchk: true })],
    ...BRIDGE,
  },
  "host-local": {
    plugins: (hosts) => [{ type: "host-local", ipam: dualIpam(hosts) }],
  },
  "static": {
    plugins: () => [{
      type: "static",
      ipam: { type: "static", addresses: [{ address: "10.1.2.9/24" }] },
    }],
  },
  "bandwidth": {
    plugins: (hosts) => [ptp(hosts), { type: "bandwidth", ...WIDE }],
  },
  "sbr": {
    plugins: (hosts) => [ptp(hosts), { type: "sbr" }],
    goFailsCheck: { ptp: "it does not find the route that sbr has moved" },
    goFailsDelAgain: { "Go 1.1.1": ["sbr", "Failed to get link eth0"] },
  },
  "loopback": {
    plugins: () => [{ type: "loopback" }],
    ifName: "lo",
    prepare: (sandbox) =>
      void runIn(sandbox, "ip", "link", "set", "lo", "down"),
  },
};

/**
 * Has one side add what the other checks and deletes, beside a container of
 * the other side.
 */
async function cross(
  t: Deno.TestContext,
  row: Row,
  { adder, other, cniVersion }: Direction,
): Promise<void> {
  using hosts = TestHosts.create();
  const [mine, neighbour] = ["mine", "neighbour"].map((containerId) =>
    new Attachment(hosts, row, cniVersion, containerId)
  ) as [Attachment, Attachment];
  const sandboxes = [mine.sandbox, neighbour.sandbox];
  const empty = stateOf(hosts, sandboxes);
  await neighbour.add(other);
  const before = stateOf(hosts, sandboxes);
  const assertAsBefore = (): void =>
    assertEquals(stateOf(hosts, sandboxes), before);

  await t.step("ADD, CHECK", async () => {
    await mine.add(adder);
    await mine.check(adder);
    await mine.check(other);
  });
  await t.step("this project's GC keeps valid attachments", async () => {
    const state = stateOf(hosts, sandboxes);
    await mine.gc(["mine", "neighbour"]);
    assertEquals(stateOf(hosts, sandboxes), state);
    await mine.check(other);
  });
  await t.step("DEL", async () => {
    await mine.del(other);
    assertAsBefore();
  });
  await t.step("a second DEL by each side", async () => {
    for (const who of [other, adder]) {
      await mine.delAgain(who);
      assertAsBefore();
    }
  });
  await t.step("the neighbour keeps its network until its DEL", async () => {
    await neighbour.check(other);
    await neighbour.del(other);
    const { sharedLink } = row;
    assertEquals(stateOf(hosts, sandboxes, sharedLink), empty);
  });
}

/** Who adds, and who checks and deletes. */
interface Direction {
  readonly adder: Who;
  readonly other: Who;
  readonly cniVersion: string;
}

function directionsWith(peer: Peer): readonly Direction[] {
  const { cniVersion } = peer;
  return [
    { adder: "ours", other: peer, cniVersion },
    { adder: peer, other: "ours", cniVersion },
  ];
}

/** Names a test, which is a cell of the table. */
function nameTest(plugin: string, adder: string, release: string): string {
  const other = adder === "ours" ? "Go" : "ours";
  return `${plugin}: ${adder} adds, ${other} checks and deletes (${release})`;
}

const needsTc = ignoreUnless(hasCommand("tc"), "needs tc");

for (const peer of listPeers("cross runs")) {
  for (const [plugin, row] of Object.entries(ROWS)) {
    if (row.impossible?.[peer.name] !== undefined) continue;
    for (const direction of directionsWith(peer)) {
      const adder = direction.adder === "ours" ? "ours" : "Go";
      const name = nameTest(plugin, adder, peer.name);
      rootTest(
        name,
        allOf(needsRuleTools, needsTc),
        (t) => cross(t, row, direction),
      );
    }
  }
}
