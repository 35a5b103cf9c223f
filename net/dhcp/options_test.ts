import { assertEquals } from "@std/assert";
import { decodeOptions, encodeOptions, OPTIONS, Options } from "./options.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("Options.get() decodes values, and skips malformed ones", [
  ["subnetMask", "ffffff00", 24],
  ["subnetMask", "00000000", 0],
  ["subnetMask", "ffffffff", 32],
  ["subnetMask", "ff00ff00", undefined],
  ["subnetMask", "ffff", undefined],
  ["routers", "0a000001" + "0a000002" + "0a", ["10.0.0.1", "10.0.0.2"]],
  ["routers", "", []],
  ["domainName", "612e746573740000", "a.test"],
  ["leaseTime", "00000e10", 3600],
  ["leaseTime", "0e10", undefined],
  ["serverId", "0a000001" + "0a000002", "10.0.0.1"],
  ["staticRoutes", "0a010203" + "0a000001", [
    { dst: "10.0.0.0/8", router: "10.0.0.1" },
  ]],
  ["staticRoutes", "ac100000" + "0a000001" + "c0a80100" + "0a000002" + "0a", [
    { dst: "172.16.0.0/16", router: "10.0.0.1" },
    { dst: "192.168.1.0/24", router: "10.0.0.2" },
  ]],
  // The examples of RFC 3442.
  ["classlessRoutes", "00" + "0a000001" + "080a" + "0a000002", [
    { dst: "0.0.0.0/0", router: "10.0.0.1" },
    { dst: "10.0.0.0/8", router: "10.0.0.2" },
  ]],
  ["classlessRoutes", "190a1bb1800a000001" + "200a1bb1810a000002", [
    { dst: "10.27.177.128/25", router: "10.0.0.1" },
    { dst: "10.27.177.129/32", router: "10.0.0.2" },
  ]],
  ["classlessRoutes", "21" + "0a000001" + "0a000001" + "00", undefined],
  ["classlessRoutes", "180a00", undefined],
  // The example of RFC 3397, in which the second name ends like the first one.
  [
    "domainSearch",
    "03656e67056170706c6503636f6d00" + "096d61726b6574696e67c004",
    ["eng.apple.com", "marketing.apple.com"],
  ],
  ["domainSearch", "c000", undefined],
  ["domainSearch", "0361", undefined],
], ([name, hex, value]: [string, string, unknown]) => {
  const known = name as keyof typeof OPTIONS;
  const options = Options.fromJSON({ [OPTIONS[known][0]]: hex });
  const got = options.get(known);
  assertEquals(
    got === undefined ? got : JSON.parse(JSON.stringify(got)),
    value,
  );
  assertEquals(options.toJSON(), { [OPTIONS[known][0]]: hex });
}, ([name, hex]) => `${name} ${hex}`);

Deno.test("encodeOptions() splits long values, and decodeOptions() joins them", () => {
  const long = new Uint8Array(600).fill(7);
  const values = new Map([[61, long], [12, new Uint8Array()]]);
  const bytes = encodeOptions(values);
  assertEquals(bytes.length, 600 + 3 * 2 + 2);
  const decoded = new Map();
  decodeOptions(bytes, decoded);
  assertEquals(decoded, values);
});

testRows("decodeOptions() stops at the end, and where an option is cut off", [
  ["0001020a0bff0302", { 1: "0a0b" }],
  ["01020a", {}],
  ["01", {}],
  ["010103" + "0c05", { 1: "03" }],
], ([hex, expected]: [string, Record<string, string>]) => {
  const values = new Map();
  decodeOptions(Uint8Array.fromHex(hex), values);
  assertEquals(new Options(values).toJSON(), expected);
});
