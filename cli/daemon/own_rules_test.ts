import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { mayHaveOwnRules } from "./own_rules.ts";

testRows<[table: string, part: string | undefined, expected: boolean]>(
  "mayHaveOwnRules()",
  [
    ["cni_portmap", undefined, true],
    ["cni_plugins_masquerade", "masq_checks", true],
    ["cni_hostport", "hostports", true],
    ["nat", undefined, true],
    ["nat", "POSTROUTING", true],
    ["nat", "CNI-0123456789abcdef01234567", true],
    ["nat", "cni-br-iface-1-eth0", true],
    ["filter", "CNI-FORWARD", true],
    ["firewalld", "filter_IN_trusted", true],
    ["nat", "KUBE-SERVICES", false],
    ["filter", "NETAVARK_FORWARD", false],
    ["nat", "__set0", false],
    ["mangle", "PREROUTING", false],
    ["netavark", "POSTROUTING", false],
    ["kube-proxy", undefined, false],
  ],
  ([table, part, expected]) =>
    assertEquals(mayHaveOwnRules(table, part), expected),
  ([table, part]) => `${table} ${part}`,
);
