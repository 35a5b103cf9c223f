/**
 * Results in every version: how each is printed and read, and what becomes of
 * one on the way to another.
 *
 * Source: containernetworking/cni pkg/types/{020,040,100}/types_test.go.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { encodeResult, formatResult } from "../../cni/result/encoding.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { Cidr } from "../../net/cidr.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { familyOf, GOLDEN, goldenBetween } from "../../cni/result/testing.ts";
import { expand, failureOf } from "./rows.ts";

/** Reads a document and prints it in another version, or in none. */
function convert(document: object, version: string): JsonObject {
  return encodeResult(decodeResult(document), version);
}

const PAIRS = SPEC_VERSIONS.flatMap((from) =>
  SPEC_VERSIONS.map((to) => [from, to] as const)
);

conformance("results", {
  ...expand(PAIRS, ([from, to]) => [
    `${from} converts to ${to}`,
    () => {
      const golden = JSON.parse(goldenBetween("1.1.0", from));
      const printed = formatResult(decodeResult(golden), to);
      assertEquals(printed, goldenBetween(from, to));
    },
  ]),
  ...expand(["", "0.1.0"], (version) => [
    `1.0.0 converts to "${version}" as to 0.1.0`,
    () => {
      const golden = JSON.parse(goldenBetween("1.1.0", "1.0.0"));
      assertEquals(convert(golden, version).cniVersion, "0.1.0");
    },
  ]),
  "a version that never was cannot be converted to": () => {
    assertEquals(failureOf(() => encodeResult(GOLDEN, "1.0.1")), {
      code: 1,
      msg: 'unsupported CNI result version "1.0.1"',
    });
  },
});

const DNS = {
  nameservers: ["1.2.3.4", "1::cafe"],
  domain: "acompany.com",
  search: ["somedomain.com", "otherdomain.net"],
  options: ["foo", "bar"],
};
const ROUTE4 = { dst: "15.5.6.0/24", gw: "15.5.6.8" };
const ROUTE6 = { dst: "1111:dddd::/80", gw: "1111:dddd::aaaa" };

/** A whole document of 0.1.0 and 0.2.0. */
const PAIR = {
  ip4: { ip: "1.2.3.30/24", gateway: "1.2.3.1", routes: [ROUTE4] },
  ip6: {
    ip: "abcd:1234:ffff::cdde/64",
    gateway: "abcd:1234:ffff::1",
    routes: [ROUTE6],
  },
  dns: DNS,
};

/** A whole document of 0.3.0 to 0.4.0. */
const VERSIONED_LISTS = {
  interfaces: [{
    name: "eth0",
    mac: "00:11:22:33:44:55",
    sandbox: "/proc/3553/ns/net",
  }],
  ips: [
    {
      version: "4",
      interface: 0,
      address: "1.2.3.30/24",
      gateway: "1.2.3.1",
    },
    {
      version: "6",
      interface: 0,
      address: "abcd:1234:ffff::cdde/64",
      gateway: "abcd:1234:ffff::1",
    },
  ],
  routes: [ROUTE4, ROUTE6],
  dns: DNS,
};

/** A whole document of 1.0.0 and 1.1.0, in the order of printing. */
const LISTS = {
  dns: {
    domain: DNS.domain,
    nameservers: DNS.nameservers,
    options: DNS.options,
    search: DNS.search,
  },
  interfaces: [{
    mac: "00:11:22:33:44:55",
    mtu: 1500,
    name: "eth0",
    pciID: "8086:9a01",
    sandbox: "/proc/3553/ns/net",
    socketPath: "/path/to/vhost/fd",
  }],
  ips: [
    { address: "1.2.3.30/24", gateway: "1.2.3.1", interface: 0 },
    {
      address: "abcd:1234:ffff::cdde/64",
      gateway: "abcd:1234:ffff::1",
      interface: 0,
    },
  ],
  routes: [
    {
      advmss: 1460,
      ...ROUTE4,
      mtu: 1500,
      priority: 100,
      scope: 253,
      table: 50,
    },
    ROUTE6,
  ],
};

const WHOLE = [
  ["0.1.0", PAIR],
  ["0.2.0", PAIR],
  ["0.3.0", VERSIONED_LISTS],
  ["0.3.1", VERSIONED_LISTS],
  ["0.4.0", VERSIONED_LISTS],
  ["1.0.0", LISTS],
  ["1.1.0", LISTS],
] as const;

/** Builds a row: by way of a version, a document comes back as it was. */
function comesBack(document: object, version: string, by: string): Row {
  return () => {
    const there = convert({ cniVersion: version, ...document }, by);
    assertEquals<unknown>(convert(there, version), {
      cniVersion: version,
      ...document,
    });
  };
}

conformance("results", {
  ...expand(WHOLE, ([cniVersion, body]) => [
    `a whole document of ${cniVersion} is printed byte for byte`,
    () => {
      const text = JSON.stringify({ cniVersion, ...body }, null, 4);
      assertEquals(
        formatResult(decodeResult(JSON.parse(text)), cniVersion),
        text,
      );
    },
  ]),
  "0.2.0 and 0.1.0 differ in the version alone": () => {
    const newer = { cniVersion: "0.2.0", ...PAIR };
    const older = { cniVersion: "0.1.0", ...PAIR };
    assertEquals<unknown>(convert(newer, "0.1.0"), older);
    assertEquals<unknown>(convert(older, "0.2.0"), newer);
  },
  "a result without a version is 0.1.0": () => {
    const older = { cniVersion: "0.1.0", ...PAIR };
    assertEquals<unknown>(convert(PAIR, ""), older);
    assertEquals<unknown>(convert({ cniVersion: "", ...PAIR }, ""), older);
  },
  "0.3.1 becomes 0.1.0 without interfaces": () => {
    assertEquals<unknown>(
      convert({ cniVersion: "0.3.1", ...VERSIONED_LISTS }, "0.1.0"),
      { cniVersion: "0.1.0", ...PAIR },
    );
  },
  "0.2.0 survives 0.4.0": comesBack(PAIR, "0.2.0", "0.4.0"),
  "0.2.0 survives 0.4.0, and its routes get no gateway on the way": comesBack(
    { ...PAIR, ip4: { ...PAIR.ip4, routes: [{ dst: ROUTE4.dst }] } },
    "0.2.0",
    "0.4.0",
  ),
  "0.2.0 survives 1.1.0": comesBack(PAIR, "0.2.0", "1.1.0"),
  "1.1.0 survives 1.0.0": comesBack(LISTS, "1.1.0", "1.0.0"),
  "1.1.0 becomes 0.4.0 without mtu, pciID and socketPath of interfaces": () => {
    const { interfaces } = convert({ cniVersion: "1.1.0", ...LISTS }, "0.4.0");
    assertEquals<unknown>(interfaces, VERSIONED_LISTS.interfaces);
  },
  "1.1.0 becomes 0.4.0 with all of its routes": () => {
    const { routes } = convert({ cniVersion: "1.1.0", ...LISTS }, "0.4.0");
    assertEquals<unknown>(routes, LISTS.routes);
  },
  "1.1.0 becomes 0.1.0": () => {
    assertEquals<unknown>(
      convert({ cniVersion: "1.1.0", ...LISTS }, "0.1.0"),
      { cniVersion: "0.1.0", ...PAIR },
    );
  },
});

const LIST_VERSIONS = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

/** Prints `ips` as the version has them, from documents of that version. */
function reprintIps(cniVersion: string, ips: object[]): unknown {
  const printed = convert({ cniVersion, ips }, cniVersion).ips as JsonObject[];
  return printed.map(({ version: _, ...ip }) => ip);
}

/** Builds a row: a list of addresses is refused. */
function refusesIp(cniVersion: string, ip: object, problem: string): Row {
  return () => {
    assertEquals(failureOf(() => decodeResult({ cniVersion, ips: [ip] })), {
      code: 6,
      msg: `Cannot decode result: ips[0].${problem}`,
    });
  };
}

conformance("results", {
  ...expand(LIST_VERSIONS, (version) => [
    `${version}: interface 0 is printed, and none stays none`,
    () => {
      const ips = [
        { interface: 0, address: "1.2.3.30/24" },
        { address: "1.2.3.31/24" },
      ];
      assertEquals(reprintIps(version, ips), ips);
    },
  ]),
  ...expand(LIST_VERSIONS, (version) => [
    `${version}: an address that is a number is refused`,
    refusesIp(
      version,
      { address: 5 },
      "address: expected a string, got a number",
    ),
  ]),
  ...expand(LIST_VERSIONS, (version) => [
    `${version}: an address that is missing is refused`,
    refusesIp(version, { interface: 0 }, "address: missing"),
  ]),
  "an invalid gateway is refused": refusesIp(
    "1.1.0",
    { address: "1.2.3.4/24", gateway: "1.2.3.x" },
    "gateway: invalid IP address: 1.2.3.x",
  ),
  "an interface index that is not an integer is refused": refusesIp(
    "1.1.0",
    { address: "1.2.3.4/24", interface: 0.5 },
    "interface: expected an integer, got 0.5",
  ),
  "an empty gateway is dropped": () => {
    const ips = [{ address: "1.2.3.4/24", gateway: "" }];
    assertEquals(reprintIps("1.1.0", ips), [{ address: "1.2.3.4/24" }]);
  },
  ...expand([
    ["10.1.2.3/8", "10.1.2.3/8"],
    ["2001:DB8:0:0::0001/64", "2001:db8::1/64"],
    ["::ffff:1.2.3.4/120", "1.2.3.4/24"],
  ], ([address, printed]) => [
    `${address} is printed as ${printed}`,
    () => {
      assertEquals(reprintIps("1.1.0", [{ address }]), [{ address: printed }]);
    },
  ]),
  "an IPv4-mapped address has version 4": () => {
    const ips = [{ address: "::ffff:1.2.3.4/120" }];
    assertEquals<unknown>(convert({ cniVersion: "1.1.0", ips }, "0.4.0").ips, [
      { version: "4", address: "1.2.3.4/24" },
    ]);
  },
  ...expand([null, [], "{}", 5], (document) => [
    `${JSON.stringify(document)} is not a result`,
    () => assertEquals(failureOf(() => decodeResult(document)).code, 6),
  ]),
});

/** An address, so that every version can print the result. */
const WITH_ADDRESS: Result = {
  ...emptyResult(),
  ips: [{ address: Cidr.parse("10.0.0.5/24") }],
};

conformance("results", {
  ...expand(SPEC_VERSIONS, (version) => [
    familyOf(version) === 0
      ? `${version} cannot print an empty result`
      : `${version} prints an empty result`,
    () => {
      if (familyOf(version) === 0) {
        assertEquals(failureOf(() => encodeResult(emptyResult(), version)), {
          code: 1,
          msg: "cannot convert: no valid IP addresses",
        });
      } else {
        assertEquals<unknown>(encodeResult(emptyResult(), version), {
          cniVersion: version,
          ...familyOf(version) === 1 ? { dns: {} } : {},
        });
      }
    },
  ]),
  ...expand(SPEC_VERSIONS, (version) => [
    familyOf(version) === 2
      ? `${version} does not print an empty dns`
      : `${version} prints an empty dns`,
    () => {
      const { dns } = encodeResult(WITH_ADDRESS, version);
      assertEquals<unknown>(dns, familyOf(version) === 2 ? undefined : {});
    },
  ]),
  ...expand(LIST_VERSIONS, (version) => [
    `${version} prints a route's scope and table of 0`,
    () => {
      const route = { dst: "0.0.0.0/0", table: 0, scope: 0 };
      const document = { cniVersion: version, routes: [route] };
      assertEquals<unknown>(convert(document, version).routes, [route]);
    },
  ]),
  ...expand(["0.1.0", "0.2.0"], (version) => [
    `${version} keeps the first address of either IP version`,
    () => {
      const ips = ["fd00::5/64", "10.0.0.5/24", "10.0.0.6/24", "fd00::6/64"]
        .map((address) => ({ address }));
      const document = { cniVersion: "1.1.0", ips };
      assertEquals<unknown>(convert(document, version), {
        cniVersion: version,
        ip4: { ip: "10.0.0.5/24" },
        ip6: { ip: "fd00::5/64" },
        dns: {},
      });
    },
  ]),
  "0.2.0 keeps no route of an IP version that has no address": () => {
    const document = {
      cniVersion: "1.1.0",
      ips: [{ address: "10.0.0.5/24" }],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    };
    assertEquals<unknown>(convert(document, "0.2.0"), {
      cniVersion: "0.2.0",
      ip4: { ip: "10.0.0.5/24", routes: [{ dst: "0.0.0.0/0" }] },
      dns: {},
    });
  },
  "1.1.0 has its keys in alphabetical order at every level": () => {
    const document = {
      zeta: { b: 1, a: 2 },
      cniVersion: "1.1.0",
      alpha: [],
    };
    assertEquals(
      JSON.stringify(convert(document, "1.1.0")),
      '{"alpha":[],"cniVersion":"1.1.0","zeta":{"a":2,"b":1}}',
    );
  },
});
