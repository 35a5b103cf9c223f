import { assertEquals } from "@std/assert";
import { Nftables } from "../../../../ffi/nftables/mod.ts";
import { Cidr } from "../../../../net/cidr.ts";
import { rootTest } from "../../../../testing/capabilities.ts";
import { runIn } from "../../../../testing/ip_json.ts";
import { TestHosts } from "../../../../testing/test_hosts.ts";
import { needsRuleTools } from "../../../../tests/_harness/rules.ts";
import { eachRow } from "../../../../tests/_harness/table.ts";
import {
  addIptablesNftMasquerade,
  listIptablesNftUnmasqueraded,
} from "./iptables_nft.ts";
import { type MasqueradeRules, namesOf } from "./names.ts";

/** An address, the address of the rules that are there, and whether they are its rules. */
type Row = readonly [address: string, present: string, isSame: boolean];

const ROWS: readonly Row[] = [
  ["10.1.0.5/24", "10.1.0.5/24", true],
  ["10.1.0.5/16", "10.1.0.5/24", false],
  ["10.1.0.5/24", "10.1.0.5/16", false],
  ["10.1.0.5/20", "10.1.0.5/20", true],
  ["10.1.0.5/20", "10.1.0.5/19", false],
  ["10.0.0.5/8", "10.0.0.5/24", false],
  ["10.0.0.0/32", "10.0.0.0/31", false],
  ["fd60::5/64", "fd60::5/64", true],
  ["fd60::5/64", "fd60::5/48", false],
];

rootTest(
  "masquerade compares the prefix lengths of iptables' rules",
  needsRuleTools,
  async (t) => {
    const names: MasqueradeRules = {
      ...await namesOf({ network: "net1", containerId: "c1", ifName: "eth0" }),
      outbound: [],
    };
    for (const program of ["the plugin", "iptables"]) {
      await eachRow(t, ROWS, async ([address, present, isSame]) => {
        using hosts = TestHosts.create();
        using nftables = Nftables.open(hosts.host.path);
        const wanted = Cidr.parse(address), there = Cidr.parse(present);
        if (program === "iptables") addWithIptables(hosts, names, there);
        else await addIptablesNftMasquerade(nftables, names, [there]);
        const isMissing = (address: Cidr): boolean =>
          listIptablesNftUnmasqueraded(nftables, names, [address]).length > 0;
        assertEquals([isMissing(there), isMissing(wanted)], [false, !isSame]);
        await addIptablesNftMasquerade(nftables, names, [wanted]);
        assertEquals([isMissing(there), isMissing(wanted)], [false, false]);
      }, ([address, present]) => `${address}, ${present} of ${program}`);
    }
  },
);

/** Adds the rules of an address with the program. */
function addWithIptables(
  { host }: TestHosts,
  { chain, iptablesComment }: MasqueradeRules,
  address: Cidr,
): void {
  const [program, multicast] = address.family === 4
    ? ["iptables-nft", "224.0.0.0/4"]
    : ["ip6tables-nft", "ff00::/8"];
  const rules: string[][] = [
    ["-A", chain, "-d", `${address.masked()}`, "-j", "ACCEPT"],
    ["-A", chain, "!", "-d", multicast, "-j", "MASQUERADE"],
    ["-A", "POSTROUTING", "-s", `${address.ip}`, "-j", chain],
  ];
  runIn(host, program, "-w", "-t", "nat", "-N", chain);
  for (const rule of rules) {
    const comment = ["-m", "comment", "--comment", iptablesComment];
    runIn(host, program, "-w", "-t", "nat", ...rule, ...comment);
  }
}
