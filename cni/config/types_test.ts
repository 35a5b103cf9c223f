import { assertEquals, assertThrows } from "@std/assert";
import * as z from "zod/mini";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { decode } from "../../base/json/json.ts";
import {
  cidrSchema,
  decodeValidAttachments,
  dnsSchema,
  ipSchema,
  listedTest,
  netConf,
  optional,
  optionalIpSchema,
  parsedText,
  routeSchema,
} from "./types.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

testRows("cidrSchema() keeps the host bits", [
  "1.2.3.4/24",
  "2001:db8::1/32",
  "0.0.0.0/0",
], (text) => {
  assertEquals(decode(cidrSchema(), text, "it"), Cidr.parse(text));
});

testRows("the address schemas refuse anything else", [
  [
    "a length too long",
    cidrSchema(),
    "1.2.3.4/99",
    "invalid CIDR address: 1.2.3.4/99",
  ],
  ["no length", cidrSchema(), "10.0.0.1", "invalid CIDR address: 10.0.0.1"],
  [
    "leading zeros",
    cidrSchema(),
    "010.0.0.1/8",
    "invalid CIDR address: 010.0.0.1/8",
  ],
  ["no text", cidrSchema(), "", "invalid CIDR address: "],
  ["a number", cidrSchema(), 5, "expected a string, got a number"],
  ["a letter", ipSchema(), "1.2.3.x", "invalid IP address: 1.2.3.x"],
  ["no address", ipSchema(), "", "invalid IP address: "],
  [
    "a wrong optional address",
    optionalIpSchema(),
    "::x",
    "invalid IP address: ::x",
  ],
], ([, schema, value, problem]: [string, z.core.$ZodType, unknown, string]) => {
  const error = assertThrows(() => decode(schema, value, "it"), CniError);
  assertEquals(error.message, `Cannot decode it: ${problem}`);
  assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
});

Deno.test("optionalIpSchema() takes empty text as absent", () => {
  const schema = z.looseObject({ gateway: optionalIpSchema() });
  const read = (gateway: unknown): Ip | undefined =>
    decode(schema, { gateway }, "it").gateway;
  assertEquals(read(""), undefined);
  assertEquals(read(null), undefined);
  assertEquals(read("FD00::0:1"), Ip.parse("fd00::1"));
});

Deno.test("parsedText() lets errors of the program through", () => {
  const schema = parsedText((): never => {
    throw new TypeError("bug");
  });
  assertThrows(() => decode(schema, "x", "it"), TypeError, "bug");
});

Deno.test("routeSchema() reads every field", async (t) => {
  const dst = Cidr.parse("10.0.0.0/8");
  const rows: [string, Record<string, unknown>, Record<string, unknown>][] = [
    ["dst only", {}, {}],
    ["gw", { gw: "10.0.0.1" }, { gw: Ip.parse("10.0.0.1") }],
    ["no gw", { gw: "" }, {}],
    [
      "all numbers",
      { mtu: 1400, advmss: 1300, priority: 5, table: 254, scope: 253 },
      { mtu: 1400, advmss: 1300, priority: 5, table: 254, scope: 253 },
    ],
    [
      "0 has a meaning in table and scope only",
      { mtu: 0, advmss: 0, priority: 0, table: 0, scope: 0 },
      { table: 0, scope: 0 },
    ],
    ["null is absent", { gw: null, mtu: null, table: null, scope: null }, {}],
    ["other cases", { MTU: 1400, AdvMSS: 1300 }, { mtu: 1400, advmss: 1300 }],
    ["unknown keys", { type: "blackhole" }, {
      unknownKeys: { type: "blackhole" },
    }],
  ];
  await eachRow(t, rows, ([, fields, expected]) => {
    const route = decode(
      routeSchema(),
      { dst: "10.0.0.0/8", ...fields },
      "it",
    );
    assertEquals<unknown>(route, { dst, ...expected });
  });
});

testRows<[string, unknown, string]>("routeSchema() refuses malformed routes", [
  ["no dst", { gw: "10.0.0.1" }, "dst: missing"],
  ["null dst", { dst: null }, "dst: expected a string, got null"],
  [
    "gw with a letter",
    { dst: "::/0", gw: "1.2.3.x" },
    "gw: invalid IP address: 1.2.3.x",
  ],
  ["fraction", { dst: "::/0", mtu: 1.5 }, "mtu: expected an integer, got 1.5"],
  [
    "text",
    { dst: "::/0", table: "main" },
    "table: expected a number, got a string",
  ],
], ([, value, problem]) => {
  const error = assertThrows(
    () => decode(routeSchema(), value, "it"),
    CniError,
  );
  assertEquals(error.message, `Cannot decode it: ${problem}`);
});

Deno.test("dnsSchema() fills in what is absent", () => {
  const dns = decode(
    dnsSchema(),
    { Search: ["a"], options: null, x: 1 },
    "dns",
  );
  assertEquals(dns, {
    nameservers: [],
    domain: "",
    search: ["a"],
    options: [],
  });
});

Deno.test("netConf() reads what every plugin is given and what it adds", async (t) => {
  const schema = netConf({ mtu: optional(z.int()) });
  await t.step("nothing", () => assertEquals(decode(schema, {}, "config"), {}));
  await t.step("everything", () => {
    const config = decode(schema, {
      name: "net",
      ipam: { Type: "host-local", subnet: "10.0.0.0/24" },
      PrevResult: { Ips: [] },
      DaemonSocket: "/run/cni/daemon.sock",
      MTU: 1500.0,
      Other: true,
    }, "config");
    assertEquals<unknown>(config, {
      name: "net",
      ipam: { type: "host-local", subnet: "10.0.0.0/24" },
      prevResult: { Ips: [] },
      daemonSocket: "/run/cni/daemon.sock",
      mtu: 1500,
      Other: true,
    });
  });
  await t.step("an empty path of a socket stands for none", () => {
    const { daemonSocket } = decode(schema, { daemonSocket: "" }, "config");
    assertEquals(daemonSocket, "");
  });
  await t.step("no relative path of a socket", () => {
    for (
      const [daemonSocket, got] of [
        ["run/d.sock", 'an absolute path, got "run/d.sock"'],
        [1, "a string, got a number"],
      ]
    ) {
      const error = assertThrows(
        () => decode(schema, { daemonSocket }, "config"),
        CniError,
        `daemonSocket: expected ${got}`,
      );
      assertEquals(error.code, 7);
    }
  });
  await t.step("a plugin's own schema for a key goes before", () => {
    const own = netConf({ ipam: z.looseObject({ type: z.string() }) });
    assertThrows(
      () => decode(own, {}, "config"),
      CniError,
      "ipam: missing",
    );
  });
});

Deno.test("decodeValidAttachments() tells no list from an empty one", async (t) => {
  const valid = [{ containerID: "c", ifname: "eth0" }];
  const decoded = [{ containerId: "c", ifName: "eth0" }];
  const rows: [name: string, config: object, want: unknown][] = [
    ["no list", {}, undefined],
    // A nil list of Go, which it ranges over as over an empty one.
    ["null", { "cni.dev/valid-attachments": null }, []],
    ["null, in another case", { "CNI.dev/Valid-Attachments": null }, []],
    [
      "null, and a list by the older key",
      { "cni.dev/attachments": valid, "cni.dev/valid-attachments": null },
      decoded,
    ],
    ["an empty list", { "cni.dev/valid-attachments": [] }, []],
    ["a list", { "cni.dev/valid-attachments": valid }, decoded],
    ["the older key", { "cni.dev/attachments": valid }, decoded],
    [
      "both keys",
      { "cni.dev/attachments": [], "cni.dev/valid-attachments": valid },
      decoded,
    ],
  ];
  await eachRow(t, rows, ([, config, want]) => {
    assertEquals(decodeValidAttachments(config), want);
  });
  await t.step("an attachment without its interface is refused", () => {
    const config = { "cni.dev/valid-attachments": [{ containerID: "c" }] };
    assertThrows(
      () => decodeValidAttachments(config),
      CniError,
      "cni.dev/valid-attachments[0].ifname: missing",
    );
  });
});

Deno.test("listedTest() reports whether both names are those of one attachment", () => {
  const list = [["c1", "eth0"], ["c2", "net1"]].map((
    [containerId, ifName],
  ) => ({
    containerId: `${containerId}`,
    ifName: `${ifName}`,
  }));
  const isListed = listedTest(list);
  assertEquals(list.map(isListed), [true, true]);
  assertEquals(isListed({ containerId: "c1", ifName: "net1" }), false);
  assertEquals(listedTest([])({ containerId: "", ifName: "" }), false);
});
