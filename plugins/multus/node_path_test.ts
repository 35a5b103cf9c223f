import { assertEquals } from "@std/assert";
import { nodePath } from "./node_path.ts";

Deno.test("nodePath() leaves out the mount point of the node's root", async (t) => {
  const there = new Set(["/host/etc/really-there"]);
  const rows: [string, string][] = [
    ["/host/etc/cni/net.d", "/etc/cni/net.d"],
    ["/host/etc/really-there", "/host/etc/really-there"],
    ["/hosts/etc/cni", "/hosts/etc/cni"],
    ["/host", "/host"],
    ["/etc/host/cni", "/etc/host/cni"],
    ["", ""],
  ];
  for (const [path, expected] of rows) {
    await t.step(path, () => {
      assertEquals(nodePath(path, (path) => there.has(path)), expected);
    });
  }
});
