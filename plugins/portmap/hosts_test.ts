/**
 * portmap on hosts that have few programs, or tables of others: the whole life
 * of an attachment, by the executable.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { needsBin } from "../../tests/_harness/executables.ts";
import {
  HostPrograms,
  OTHERS,
  PROGRAMS,
} from "../../tests/_harness/host_programs.ts";
import { MappedPorts } from "./testing/mapped_ports.ts";
import {
  needsLegacyIptables,
  needsRuleTools,
} from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const needsAll = allOf(needsBin, needsRuleTools, needsLegacyIptables());

/** Where the rules are kept. */
type Place = "nftables" | "iptables-nft" | "iptables-legacy" | "nowhere";

/** Returns where a container's ports are. */
function hostTableOf(host: MappedPorts): Place {
  if (host.containerRules("-legacy").length > 0) return "iptables-legacy";
  const tables = runIn(host.hosts.host, "nft", "list", "ruleset");
  if (/table inet cni_portmap/.test(tables)) return "nftables";
  return /CNI-DN-/.test(tables) ? "iptables-nft" : "nowhere";
}

rootTest("portmap forwards on hosts with few programs", needsAll, async (t) => {
  const rows: [programs: string, others: string, place: Place][] = [
    ["no program at all", "tables by iptables-nft", "nftables"],
    ["iptables-nft", "nobody's tables", "iptables-nft"],
    ["iptables-nft", "tables by iptables-legacy", "iptables-nft"],
    // iptables does not work with a table that has such a chain.
    ["iptables-nft", "tables by nft", "nftables"],
    ["iptables-legacy", "nobody's tables", "iptables-legacy"],
    ["iptables-legacy", "tables by nft", "iptables-legacy"],
    ["a script as iptables", "nobody's tables", "iptables-legacy"],
    ["an iptables without its kernel modules", "nobody's tables", "nftables"],
    ["an iptables that does not start", "nobody's tables", "nftables"],
  ];
  await eachRow(t, rows, ([programs, others, place]) => {
    using host = new MappedPorts();
    const { hosts } = host;
    runIn(hosts.host, "sh", "-ec", OTHERS[others] ?? "");
    const found = new HostPrograms(hosts, PROGRAMS[programs] ?? "");
    const call = (command: string, keys = {}): void => {
      const config = { ...host.configOf(), ...keys };
      const { code, stdout, stderr } = found.exec("portmap", command, config);
      assertEquals(code, 0, stdout + stderr);
    };
    call("STATUS", { cniVersion: "1.1.0" });
    call("ADD");
    assertEquals(hostTableOf(host), place);
    call("CHECK");
    if (others === "nobody's tables") call("DEL");
    else call("GC", { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] });
    assertEquals(hostTableOf(host), "nowhere");
  }, (row) => row.join(", "));

  await t.step("the iptables that the configuration names is missing", () => {
    using host = new MappedPorts({ backend: "iptables" });
    const none = new HostPrograms(host.hosts, "");
    const { code, stdout } = none.exec("portmap", "ADD", host.configOf());
    assertEquals(code, 1);
    assertMatch(stdout, /failed to open iptables[^]*the host has no iptables/);
  });
});
