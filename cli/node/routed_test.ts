import { assertEquals } from "@std/assert";
import { decodePluginConf } from "../../libcni/conf.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { listSubnets } from "./routed.ts";

testRows<[ipam: object, subnets: string[]]>(
  "listSubnets() reads keys in any case",
  [
    [{ ipam: { subnet: "10.1.0.0/24" } }, ["10.1.0.0/24"]],
    [{ IPAM: { Subnet: "10.1.0.0/24" } }, ["10.1.0.0/24"]],
    [
      { Ipam: { Ranges: [[{ Subnet: "10.1.0.0/24" }, { subnet: "::/64" }]] } },
      ["10.1.0.0/24", "::/64"],
    ],
    [{ IPAM: { Addresses: [{ Address: "10.1.0.2/24" }] } }, ["10.1.0.0/24"]],
    [{}, []],
  ],
  ([ipam, subnets]) => {
    const conf = decodePluginConf({ type: "ptp", ...ipam });
    assertEquals(listSubnets(conf).map(String), subnets);
  },
  JSON.stringify,
);
