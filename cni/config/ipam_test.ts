import { assertEquals } from "@std/assert";
import { ipamOf, ipamTypeOf, typesWithIpam } from "./ipam.ts";

Deno.test("ipamOf() and ipamTypeOf() read keys in any case, and the last of several", () => {
  const ipam = { type: "static" };
  for (const key of ["ipam", "IPAM", "Ipam"]) {
    assertEquals(ipamOf({ type: "ptp", [key]: ipam }), ipam);
  }
  assertEquals(ipamTypeOf({ IPAM: { Type: "dhcp" } }), "dhcp");
  assertEquals(ipamTypeOf({ IPAM: { type: "dhcp" }, ipam }), "static");
  for (const conf of [{}, { ipam: "static" }, { ipam: { type: "" } }]) {
    assertEquals(ipamTypeOf(conf), undefined);
  }
});

Deno.test("typesWithIpam() lists plugins and their IPAM plugins, each once", () => {
  const plugins = [
    { type: "ptp", document: { IPAM: { type: "static" } } },
    { type: "sbr", document: { ipam: {} } },
    { type: "ptp", document: { ipam: { type: "dhcp" } } },
  ];
  assertEquals(typesWithIpam(plugins), ["ptp", "static", "sbr", "dhcp"]);
});
