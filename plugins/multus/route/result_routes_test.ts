import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../../base/error.ts";
import type { JsonObject, JsonValue } from "../../../base/json/json.ts";
import { decodeResult } from "../../../cni/result/decoding.ts";
import { SPEC_VERSIONS } from "../../../cni/version.ts";
import { Ip, type IpFamily } from "../../../net/ip.ts";
import { Cidr } from "../../../net/cidr.ts";
import {
  addDefaultRoutes,
  addRoutes,
  dropDefaultRoutes,
} from "./result_routes.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";

const PLAIN4 = { dst: "20.0.0.0/24", gw: "10.1.1.1" };
const PLAIN6 = { dst: "20::/56", gw: "10::1" };
const DEFAULT4 = { dst: "0.0.0.0/0", gw: "10.1.1.1" };
const DEFAULT6 = { dst: "::/0", gw: "10::1" };

/** A result of any version with routes of both families. */
function resultOf(
  cniVersion: string,
  routes: readonly JsonValue[],
): JsonObject {
  const of = (family: IpFamily): JsonValue[] =>
    routes.filter((route) =>
      JSON.stringify(route).includes("::") === (family === 6)
    );
  const withRoutes = (ip: string, list: JsonValue[]): JsonObject =>
    list.length === 0 ? { ip } : { ip, routes: list };
  return cniVersion.startsWith("0.1") || cniVersion.startsWith("0.2")
    ? {
      cniVersion,
      ip4: withRoutes("10.1.1.103/24", of(4)),
      ip6: withRoutes("10::103/64", of(6)),
      dns: {},
      extra: [1],
    }
    : {
      cniVersion,
      ips: [{ address: "10.1.1.103/24" }, { address: "10::103/64" }],
      ...routes.length === 0 ? {} : { routes: [...routes] },
      extra: [1],
    };
}

testRows("cached routes of every version are edited", [
  ...SPEC_VERSIONS,
  "1.2.0",
], (cniVersion) => {
  const full = resultOf(cniVersion, [PLAIN4, DEFAULT4, PLAIN6, DEFAULT6]);
  const original = structuredClone(full);
  const without = (...dropped: unknown[]): JsonObject =>
    resultOf(
      cniVersion,
      [PLAIN4, DEFAULT4, PLAIN6, DEFAULT6].filter((route) =>
        !dropped.includes(route)
      ),
    );
  assertEquals(dropDefaultRoutes(full, [4]), without(DEFAULT4));
  assertEquals(dropDefaultRoutes(full, [6]), without(DEFAULT6));
  assertEquals(dropDefaultRoutes(full, [4, 6]), without(DEFAULT4, DEFAULT6));
  assertEquals(dropDefaultRoutes(full, []), full);
  const gateways = [Ip.parse("10.1.1.9"), Ip.parse("10::9")];
  assertEquals(
    addDefaultRoutes(without(DEFAULT4, DEFAULT6), gateways),
    resultOf(cniVersion, [
      PLAIN4,
      PLAIN6,
      { dst: "0.0.0.0/0", gw: "10.1.1.9" },
      { dst: "::/0", gw: "10::9" },
    ]),
  );
  const none = resultOf(cniVersion, []);
  const only = resultOf(cniVersion, [DEFAULT4, DEFAULT6]);
  assertEquals(dropDefaultRoutes(only, [4, 6]), none);
  assertEquals(
    addDefaultRoutes(none, [Ip.parse("10.1.1.1"), Ip.parse("10::1")]),
    only,
  );
  assertEquals(full, original);
  if (cniVersion === "1.2.0") return;
  assertEquals(decodeResult(dropDefaultRoutes(full, [4])).routes.length, 3);
});

interface RouteRow {
  readonly route: JsonValue;
  /** The families that drop it. */
  readonly families: readonly IpFamily[];
}

const ROUTES: Readonly<Record<string, RouteRow>> = {
  "of IPv4": { route: DEFAULT4, families: [4] },
  "of IPv6": { route: DEFAULT6, families: [6] },
  "of IPv6, in long": { route: { dst: "::0/0" }, families: [6] },
  "of IPv6, in very long": {
    route: { dst: "0:0:0:0:0:0:0:0/0" },
    families: [6],
  },
  "of IPv4, in short": { route: { dst: "0/0" }, families: [4] },
  "with host bits": { route: { dst: "10.1.2.3/0" }, families: [4] },
  "without destination, with a gateway": {
    route: { gw: "10::1" },
    families: [6],
  },
  "without destination or gateway": { route: {}, families: [4, 6] },
  "with null as the destination": {
    route: { dst: null, gw: "10.1.1.1" },
    families: [4],
  },
  "of table main": { route: { ...DEFAULT4, table: 254 }, families: [4] },
  "of whichever table": { route: { ...DEFAULT4, table: 0 }, families: [4] },
  "of another table": { route: { ...DEFAULT4, table: 100 }, families: [] },
  "with another case": { route: { Dst: "0.0.0.0/0" }, families: [4] },
  "half of everything": { route: { dst: "0.0.0.0/1" }, families: [] },
  "the zero address": { route: { dst: "::/128" }, families: [] },
  "no destination at all": { route: { dst: "default" }, families: [] },
  "no route at all": { route: "0.0.0.0/0", families: [] },
};

Deno.test("dropDefaultRoutes() detects a default route by its prefix length", async (t) => {
  await eachRow(t, Object.entries(ROUTES), ([, { route, families }]) => {
    for (const family of [4, 6] as const) {
      const document = { cniVersion: "1.1.0", routes: [route] };
      const expected = families.includes(family)
        ? { cniVersion: "1.1.0" }
        : document;
      assertEquals(dropDefaultRoutes(document, [family]), expected);
    }
  });
});

Deno.test("dropDefaultRoutes() gives a route without destination the family of its list", () => {
  const document = {
    ip4: { ip: "10.1.1.3/24", gateway: "10.1.1.1", routes: [{}, PLAIN4] },
    ip6: { ip: "10::3/64", routes: [{}] },
  };
  assertEquals(dropDefaultRoutes(document, [4]), {
    ip4: { ip: "10.1.1.3/24", gateway: "10.1.1.1", routes: [PLAIN4] },
    ip6: { ip: "10::3/64", routes: [{}] },
  });
});

Deno.test("dropDefaultRoutes() keeps routes through given gateways", () => {
  const kept = { ...DEFAULT6, priority: 7, note: "mine" };
  const document = {
    cniVersion: "1.1.0",
    routes: [DEFAULT4, kept, { ...DEFAULT6, gw: "10::2" }],
  };
  const gateways = [Ip.parse("10::1"), Ip.parse("10.1.1.9")];
  assertEquals(dropDefaultRoutes(document, [4, 6], gateways), {
    cniVersion: "1.1.0",
    routes: [kept],
  });
});

Deno.test("dropDefaultRoutes() and addDefaultRoutes() use the addresses' gateways for routes without one", () => {
  const gateways = [Ip.parse("10.1.1.1"), Ip.parse("10::1")];
  const implicit4 = { dst: "0.0.0.0/0", priority: 7 };
  const implicit6 = { dst: "::/0", mtu: 1400 };
  for (
    const document of [
      {
        ip4: { gateway: "10.1.1.1", routes: [implicit4] },
        ip6: { gateway: "10::1", routes: [implicit6] },
      },
      {
        cniVersion: "1.1.0",
        ips: [{ gateway: "10::1" }, {}, { gateway: "10.1.1.1" }],
        routes: [implicit4, implicit6],
      },
    ]
  ) {
    const named = JSON.stringify(document)
      .replace('"priority":7', '"priority":7,"gw":"10.1.1.1"')
      .replace('"mtu":1400', '"mtu":1400,"gw":"10::1"');
    assertEquals(
      dropDefaultRoutes(document, [4, 6], gateways),
      JSON.parse(named),
    );
    assertEquals<JsonObject>(addDefaultRoutes(document, gateways), document);
    const without = dropDefaultRoutes(document, [4, 6]);
    assertEquals(JSON.stringify(without).includes("/0"), false);
  }
});

Deno.test("addDefaultRoutes() does not add an existing route", () => {
  const there = { dst: "::0/0", gw: "10:0::1", priority: 7 };
  const elsewhere = { dst: "0.0.0.0/0", gw: "10.1.1.1", table: 100 };
  const document = { cniVersion: "1.1.0", routes: [there, elsewhere, PLAIN4] };
  const gateways = [Ip.parse("10::1"), Ip.parse("10.1.1.1")];
  assertEquals(addDefaultRoutes(document, gateways), {
    cniVersion: "1.1.0",
    routes: [there, elsewhere, PLAIN4, DEFAULT4],
  });
});

Deno.test("addDefaultRoutes() adds no route for a family without an address in an old result", () => {
  const document = { cniVersion: "0.2.0", ip6: { ip: "10::3/64" } };
  assertEquals(addDefaultRoutes(document, [Ip.parse("10.1.1.1")]), document);
});

Deno.test("addDefaultRoutes() accepts null, and keys in any case", () => {
  const gateways = [Ip.parse("10.1.1.1")];
  for (const routes of [null, []]) {
    assertEquals(
      addDefaultRoutes({ CNIVersion: "0.4.0", Routes: routes }, gateways),
      { CNIVersion: "0.4.0", Routes: [DEFAULT4] },
    );
  }
});

Deno.test("dropDefaultRoutes() and addDefaultRoutes() refuse unknown versions", () => {
  for (const cniVersion of ["0.9.0", "0.5.0", "one", 7]) {
    for (
      const edit of [
        (document: JsonObject) => dropDefaultRoutes(document, [4]),
        (document: JsonObject) => addDefaultRoutes(document, []),
      ]
    ) {
      const error = assertThrows(() => edit({ cniVersion }), CniError);
      assertEquals(error.message, `not supported version: ${cniVersion}`);
      assertEquals(error.code, ErrorCode.IncompatibleVersion);
    }
  }
});

testRows(
  "addRoutes() adds what a result of each version can have",
  SPEC_VERSIONS,
  (cniVersion) => {
    const added = [
      { dst: Cidr.parse("10.50.0.0/16"), gw: Ip.parse("10.1.0.1"), mtu: 1400 },
      { dst: Cidr.parse("fd50::/16"), gw: Ip.parse("fd::1"), table: 100 },
    ];
    const isOld = /^0\.[12]\./.test(cniVersion);
    const before: JsonObject = isOld
      ? { cniVersion, ip4: { ip: "10.1.0.2/24" } }
      : { cniVersion, ips: [{ version: "4", address: "10.1.0.2/24" }] };
    const after = addRoutes(before, added);
    assertEquals(addRoutes(after, added), after);
    assertEquals<unknown>(
      after,
      isOld
        ? {
          cniVersion,
          ip4: {
            ip: "10.1.0.2/24",
            routes: [{ dst: "10.50.0.0/16", gw: "10.1.0.1" }],
          },
        }
        : {
          ...before,
          routes: [
            { dst: "10.50.0.0/16", gw: "10.1.0.1", mtu: 1400 },
            { dst: "fd50::/16", gw: "fd::1", table: 100 },
          ],
        },
    );
  },
  (cniVersion) => cniVersion,
);

Deno.test("addRoutes() identifies a route by the gateway of its network", () => {
  const dst = Cidr.parse("10.50.0.0/16"), gw = Ip.parse("10.1.0.1");
  const document = (routes: JsonValue): JsonObject => ({
    cniVersion: "1.1.0",
    ips: [{ address: "10.1.0.2/24", gateway: "10.1.0.1" }],
    routes,
  });
  const known = document([{ DST: "10.50.7.7/16" }]);
  assertEquals(addRoutes(known, [{ dst, gw }]), known);
  const other = document([{ dst: "10.50.0.0/16", table: 100 }]);
  assertEquals(
    addRoutes(other, [{ dst, gw }]),
    document([
      { dst: "10.50.0.0/16", table: 100 },
      { dst: "10.50.0.0/16", gw: "10.1.0.1" },
    ]),
  );
});
