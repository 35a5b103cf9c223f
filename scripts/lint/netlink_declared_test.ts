import { netlinkDeclared } from "./netlink_declared.ts";
import { testRows } from "./testing.ts";

Deno.test("cni/netlink-declared accepts bytes in the codecs", async (t) => {
  await testRows(t, netlinkDeclared, [
    ["net/bytes.ts", "new DataView(buffer);"],
    ["ffi/nftables/batch.ts", "const a = (length + 3) & ~3;"],
    ["ffi/packet.ts", "let view: DataView;"],
    ["scripts/measure/soak.ts", "new DataView(buffer);"],
    ["net/ip_test.ts", "new DataView(buffer);"],
    ["net/mac.ts", "const a = first & ~MULTICAST_BIT;"],
    ["net/mac.ts", "const a = flags & ~1;"],
    ["net/mac.ts", "const a = bits & 3;"],
  ]);
});

Deno.test("cni/netlink-declared refuses bytes elsewhere", async (t) => {
  await testRows(t, netlinkDeclared, [
    ["ffi/rtnl/link.ts", "new DataView(buffer);", "DataView outside a codec"],
    ["ffi/rtnl/link.ts", "let view: DataView;", "DataView outside a codec"],
    ["net/ip.ts", "globalThis.DataView;", "DataView outside a codec"],
    ["ffi/file/fd.ts", "const a = (b + 3) & ~3;", "Alignment outside a codec"],
    ["ffi/file/fd.ts", "const a = ~7 & (b + 7);", "Alignment outside a codec"],
    [
      "base/log/log.ts",
      "const a = b & ~(align - 1);",
      "Alignment outside a codec",
    ],
  ]);
});
