import { assertEquals } from "@std/assert";
import { eachRow } from "../tests/_harness/table.ts";
import { findByName } from "./renamed.ts";

Deno.test("findByName() finds a plugin by each name of its executable", async (t) => {
  const rows: [names: string[], found: string[]][] = [
    [["bridge"], ["bridge"]],
    [["foo", "portmap", "cni"], ["portmap"]],
    // The caller's name counts before the file's.
    [["ptp", "bridge", "cni"], ["ptp"]],
    [["portmap.bin", "cni"], ["portmap"]],
    [["cnv-bridge"], ["bridge"]],
    [["bridge-1.9.1"], ["bridge"]],
    [["my_bridge_2"], ["bridge"]],
    [["foo", "ptp.real"], ["ptp"]],
    [["k8s-host-local.orig"], ["host-local"]],
    [["host-device.host-device"], ["host-device"]],
    [["multus-shim.bin"], ["multus-shim"]],
    [["cni-multus"], ["multus"]],
    // A whole name of the file is worth more than a part of the caller's.
    [["my-ptp", "vlan", "cni"], ["vlan"]],
    [["ptp-bridge"], ["bridge", "ptp"]],
    [["mybridge", "bridge2", "cni"], []],
    [["cnitool", "cni.old"], []],
    [[""], []],
  ];
  await eachRow(t, rows, ([names, found]) => {
    assertEquals(findByName(names), found);
  }, ([names]) => names.join(" → "));
});
