/**
 * Networks that both sides operate together: each of ADD, what comes between,
 * and DEL is ours or Go's, beside a container of either side that stays alive.
 */

import { assertEquals } from "@std/assert";
import {
  allOf,
  ignoreUnless,
  isExecutable,
  rootTest,
} from "../testing/capabilities.ts";
import { runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import {
  Attachment,
  ptp,
  type Row,
  stateOf,
} from "./_harness/cross_attachment.ts";
import { SUBNET_ENV } from "../plugins/flannel/testing.ts";
import { listPeers, type Who } from "./_harness/parity.ts";
import { NEWEST_RELEASE, type Peer } from "./_harness/peers.ts";
import { needsRuleTools } from "./_harness/rules.ts";

const IPTABLES = { ipMasq: true, ipMasqBackend: "iptables" };
const NFTABLES = { ipMasq: true, ipMasqBackend: "nftables" };

/** The operated networks, by name. */
const ROWS: Readonly<Record<string, Row>> = {
  "masquerade, iptables": { plugins: (hosts) => [ptp(hosts, IPTABLES)] },
  "masquerade, nftables": { plugins: (hosts) => [ptp(hosts, NFTABLES)] },
  "firewall": {
    plugins: (hosts) => [
      ptp(hosts),
      { type: "firewall", backend: "iptables" },
    ],
  },
  "portmap": {
    plugins: (hosts, containerId) => {
      const hostPort = containerId === "mine" ? 8080 : 8081;
      const portMappings = [{ hostPort, containerPort: 80, protocol: "tcp" }];
      const runtimeConfig = { portMappings };
      const capabilities = { portMappings: true };
      const keys = { backend: "iptables", capabilities, runtimeConfig };
      return [ptp(hosts), { type: "portmap", ...keys }];
    },
  },
  "tuning": {
    plugins: (hosts) => [
      ptp(hosts),
      { type: "tuning", mtu: 1400, dataDir: `${hosts.directory}/tuning` },
    ],
  },
  "flannel": {
    plugins: (hosts) => {
      const subnetFile = `${hosts.directory}/subnet.env`;
      Deno.writeTextFileSync(subnetFile, SUBNET_ENV.dual.join("\n"));
      return [{
        type: "flannel",
        subnetFile,
        dataDir: `${hosts.directory}/flannel`,
        delegate: { bridge: "br0", ...IPTABLES },
        ipam: { dataDir: `${hosts.directory}/leases` },
      }];
    },
    sharedLink: "br0",
  },
};

/** The rules of portmap that attachments share, and that both sides leave. */
const SHARED = /CNI-HOSTPORT-MASQ/;

/** The rules of portmap that drop packets of 127.0.0.0/8. */
const GUARD = /^inet cni_portmap loopback/;

/** Whose ADD, whose GC or CHECK, and whose DEL; Go has no GC. */
type Order = readonly [add: Side, between: Side, del: Side];
type Side = "ours" | "Go";

/**
 * Chooses whose container stays alive beside a run, so that any three of the four
 * sides come in every combination.
 */
function neighbourOf(order: Order): Side {
  return order.filter((side) => side === "ours").length % 2 === 0
    ? "ours"
    : "Go";
}

/** The steps between; CHECK comes before each GC. */
const BETWEEN: Readonly<Record<Side, string>> = {
  ours: "GC ours",
  Go: "CHECK Go",
};

const SIDES: readonly Side[] = ["ours", "Go"];
const ORDERS: readonly Order[] = SIDES.flatMap((add) =>
  SIDES.flatMap((between) => SIDES.map((del): Order => [add, between, del]))
);

/** Runs the three steps beside a container that stays alive. */
async function operate(
  row: Row,
  peer: Peer,
  [add, between, del]: Order,
  neighbourSide: Side,
): Promise<void> {
  const who = (side: Side): Who => side === "ours" ? "ours" : peer;
  using hosts = TestHosts.create();
  const [mine, neighbour] = ["mine", "neighbour"].map((containerId) =>
    new Attachment(hosts, row, peer.cniVersion, containerId)
  ) as [Attachment, Attachment];
  const sandboxes = [mine.sandbox, neighbour.sandbox];
  const { sharedLink } = row;
  const state = (): unknown => stateOf(hosts, sandboxes);
  const known = (): unknown =>
    stateOf(hosts, sandboxes, undefined, del === "Go" ? GUARD : undefined);
  const left = (): unknown => stateOf(hosts, sandboxes, sharedLink, SHARED);
  const empty = left();

  await neighbour.add(who(neighbourSide));
  const before = state(), knownBefore = known();
  await mine.add(who(add));
  const attached = state();
  await mine.check(who(between));
  if (between === "ours") await mine.gc(["mine", "neighbour"]);
  assertEquals(state(), attached);
  await mine.del(who(del));
  // Go's DEL does not know of the rules that keep packets out.
  assertEquals(known(), knownBefore);
  // The container is gone: its records may not touch who lives.
  await mine.gc(["neighbour"]);
  assertEquals(state(), before);
  await neighbour.check(who(neighbourSide));
  await neighbour.del(who(neighbourSide));
  await mine.gc([]);
  assertEquals(left(), empty);
  const tables = runIn(hosts.host, "nft", "list", "tables");
  assertEquals(tables.includes("cni_firewall"), false, tables);
}

for (const peer of listPeers("mixed operation")) {
  // Go 1.1.1 knows neither all keys nor CNI 1.1.0.
  if (peer.name !== `Go ${NEWEST_RELEASE.slice(1)}`) continue;
  for (const [name, row] of Object.entries(ROWS)) {
    const hasPlugin = name !== "flannel" ||
      isExecutable(`${peer.directory}/flannel`);
    const needs = allOf(
      needsRuleTools,
      ignoreUnless(hasPlugin, "needs flannel of flannel-io/cni-plugin"),
    );
    for (const order of ORDERS) {
      const [add, between, del] = order;
      rootTest(
        `${name}: ADD ${add}, ${BETWEEN[between]}, DEL ${del} (${peer.name})`,
        needs,
        () => operate(row, peer, order, neighbourOf(order)),
      );
    }
  }
}
