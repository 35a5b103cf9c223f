import { assertEquals } from "@std/assert";
import { actingRules } from "./acting_rules.ts";
import {
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

/** Rules of two chains and a map, all reached from one base chain. */
const RULES = `
add table ip t
add chain ip t base { type nat hook postrouting priority 100 ; }
add chain ip t by_source
add chain ip t hide
add map ip t sources { type ipv4_addr : verdict ; }
add rule ip t base ip daddr 224.0.0.0/4 counter return
add rule ip t base goto by_source
add rule ip t by_source ip saddr vmap @sources
add rule ip t hide masquerade
`;

const ELEMENT = "element ip t sources { 10.1.2.3 : goto hide }";

rootTest(
  "actingRules() lists only rules that affect packets",
  ignoreUnless(hasCommand("nft"), "needs nft"),
  async (t) => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    const nft = (lines: string): string[] => {
      runIn(host, "sh", "-ec", 'echo "$1" | nft -f -', "sh", lines);
      return actingRules(host).map((line) => line.replace(/(: ).*/, ""));
    };
    const all = ["ip t base", "ip t base", "ip t by_source"];
    await t.step("an empty ruleset", () => assertEquals(nft(""), []));
    await t.step("a lookup in an empty map", () => {
      assertEquals(nft(RULES), []);
    });
    await t.step("an element, and the rules that lead to it", () => {
      const found = [...all, "@sources", "ip t hide"];
      assertEquals(nft(`add ${ELEMENT}`), found);
    });
    await t.step("a removed element", () => {
      assertEquals(nft("delete element ip t sources { 10.1.2.3 }"), []);
    });
    await t.step("a rule, and a return before it", () => {
      const rule = "add rule ip t by_source ip saddr 10.1.2.3 masquerade";
      assertEquals(nft(rule), all);
    });
    await t.step("a rule in an unreachable chain", () => {
      assertEquals(nft("flush chain ip t base"), []);
    });
    await t.step("an anonymous map", () => {
      const rule = "add rule ip t base ip saddr vmap { 10.1.2.3 : drop }";
      assertEquals(nft(rule).length, 2);
    });
  },
);
