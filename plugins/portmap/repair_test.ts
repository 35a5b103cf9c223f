/** REPAIR of portmap, after other programs have removed its rules. */

import {
  assertEquals,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { needsRuleTools, rulesOf } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { MappedPorts, SAMPLE, withPorts } from "./testing/mapped_ports.ts";

const FLUSHES: readonly [backend: string, script: string][] = [
  ["iptables", "nft flush ruleset"],
  ["iptables", "iptables -t nat -F; ip6tables -t nat -F"],
  ["iptables", "iptables -t nat -F PREROUTING"],
  ["nftables", "nft flush ruleset"],
  ["nftables", "nft flush table inet cni_portmap"],
  ["nftables", "nft delete table inet cni_portmap"],
];

rootTest("portmap.repair() restores lost rules", needsRuleTools, async (t) => {
  await eachRow(t, FLUSHES, async ([backend, script]) => {
    using host = new MappedPorts({ backend, ...withPorts(SAMPLE) });
    await host.succeed("ADD");
    const before = rulesOf(host.hosts.host);
    runIn(host.hosts.host, "sh", "-ec", script);
    const { json } = await host.succeed("REPAIR");
    assertNotEquals(json.repaired, []);
    assertEquals(json.remaining, []);
    await host.succeed("CHECK");
    assertEquals(rulesOf(host.hosts.host).toSorted(), before.toSorted());
    assertEquals((await host.succeed("REPAIR")).json.repaired, []);
    await host.succeed("DEL");
    assertEquals(host.containerRules(), []);
  });
});

rootTest(
  "portmap.repair() restores only ports that no other container has",
  needsRuleTools,
  async () => {
    using host = new MappedPorts({ backend: "nftables" });
    const both = withPorts([
      { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      { hostPort: 8081, containerPort: 81, protocol: "tcp" },
    ]);
    await host.succeed("ADD", both);
    runIn(host.hosts.host, "nft", "flush", "ruleset");
    const other = {
      containerId: "other",
      sandbox: host.hosts.addNetns(),
      addresses: ["10.1.2.6/24"],
    };
    await host.succeed("ADD", {}, other);
    const before = host.table;
    const { json } = await host.succeed("REPAIR", both);
    assertStringIncludes(json.error, "8080");
    assertNotEquals(json.remaining, []);
    assertEquals(host.table, before);
    await host.succeed("CHECK", {}, other);
  },
);
