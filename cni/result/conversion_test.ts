import { assertEquals, assertThrows } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { familyOf, GOLDEN, readGolden } from "./testing.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import {
  type JsonObject,
  type JsonValue,
  omitAbsent,
} from "../../base/json/json.ts";
import {
  emptyResult,
  type Interface,
  type IpConfig,
  type Result,
  type Route,
} from "./result.ts";
import { decodeResult, parsePrevResult } from "./decoding.ts";
import { encodeResult, formatResult } from "./encoding.ts";
import { isAtLeast, SPEC_VERSIONS } from "../version.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

/** Reads a document in one version and prints it in another. */
function convert(document: unknown, version: string): JsonObject {
  return encodeResult(decodeResult(document), version);
}

/** Runs `fn` and returns code and message of the CniError that it throws. */
function failureOf(fn: () => unknown): [number, string] {
  const { code, message } = assertThrows(fn, CniError);
  return [code, message];
}

Deno.test("formatResult() prints the golden result byte for byte", async (t) => {
  await eachRow(t, SPEC_VERSIONS, (version) => {
    assertEquals(formatResult(GOLDEN, version), readGolden(version));
  });
  await t.step("no version is 0.1.0", () => {
    assertEquals(formatResult(GOLDEN, ""), readGolden("0.1.0"));
  });
});

const DNS = {
  nameservers: ["1.2.3.4", "1::cafe"],
  domain: "acompany.com",
  search: ["somedomain.com"],
  options: ["foo"],
};

testRows("encodeResult() omits what is zero, save where zero means something", [
  "0.4.0",
  "1.1.0",
], (version) => {
  const { interfaces, ips, routes } = encodeResult({
    ...emptyResult(),
    interfaces: [{ name: "", mac: "", mtu: 0, sandbox: "" }],
    ips: [{ interface: 0, address: Cidr.parse("::1/128") }],
    routes: [{
      dst: Cidr.parse("::/0"),
      mtu: 0,
      advmss: 0,
      priority: 0,
      table: 0,
      scope: 0,
    }],
  }, version);
  const ipVersion = version === "0.4.0" ? { version: "6" } : {};
  assertEquals<unknown>({ interfaces, ips, routes }, {
    interfaces: [{ name: "" }],
    ips: [{ ...ipVersion, interface: 0, address: "::1/128" }],
    routes: [{ dst: "::/0", table: 0, scope: 0 }],
  });
});

Deno.test("dns is printed empty up to 0.4.0, and not from 1.0.0", async (t) => {
  const result = { ...emptyResult(), ips: GOLDEN.ips };
  const dns = { ...DNS, search: [], domain: "" };
  await eachRow(t, SPEC_VERSIONS, (version) => {
    const empty = isAtLeast(version, "1.0.0") ? undefined : {};
    assertEquals<unknown>(encodeResult(result, version).dns, empty);
    assertEquals<unknown>(encodeResult({ ...result, dns }, version).dns, {
      nameservers: DNS.nameservers,
      options: DNS.options,
    });
  });
});

const UNKNOWN: Record<string, JsonValue> = {
  zeta: [{ b: 1, a: null }],
  alpha: {},
};

Deno.test("unknown keys go through from 0.3.0 on", async (t) => {
  const body = {
    interfaces: [{ name: "eth0", ...UNKNOWN }],
    ips: [{ address: "10.0.0.1/8", ...UNKNOWN }],
    routes: [{ dst: "::/0", ...UNKNOWN }],
    ...UNKNOWN,
  };
  await t.step("0.4.0 has them last", () => {
    const printed = convert({ ...body, cniVersion: "0.4.0" }, "0.3.1");
    assertEquals(
      JSON.stringify(printed),
      `{"cniVersion":"0.3.1",` +
        `"interfaces":[{"name":"eth0","zeta":[{"b":1,"a":null}],"alpha":{}}],` +
        `"ips":[{"version":"4","address":"10.0.0.1/8","zeta":[{"b":1,"a":null}],"alpha":{}}],` +
        `"routes":[{"dst":"::/0","zeta":[{"b":1,"a":null}],"alpha":{}}],` +
        `"dns":{},"zeta":[{"b":1,"a":null}],"alpha":{}}`,
    );
  });
  await t.step("1.1.0 has them sorted in", () => {
    const printed = convert({ ...body, cniVersion: "0.4.0" }, "1.1.0");
    assertEquals(
      JSON.stringify(printed),
      `{"alpha":{},"cniVersion":"1.1.0",` +
        `"interfaces":[{"alpha":{},"name":"eth0","zeta":[{"a":null,"b":1}]}],` +
        `"ips":[{"address":"10.0.0.1/8","alpha":{},"zeta":[{"a":null,"b":1}]}],` +
        `"routes":[{"alpha":{},"dst":"::/0","zeta":[{"a":null,"b":1}]}],` +
        `"zeta":[{"a":null,"b":1}]}`,
    );
  });
  await t.step("0.2.0 drops them", () => {
    const document = {
      cniVersion: "0.2.0",
      ip4: {
        ip: "10.0.0.1/8",
        routes: [{ dst: "::/0", ...UNKNOWN }],
        ...UNKNOWN,
      },
      ...UNKNOWN,
    };
    for (const from of [{ ...body, cniVersion: "1.1.0" }, document]) {
      assertEquals<unknown>(convert(from, "0.2.0"), {
        cniVersion: "0.2.0",
        ip4: { ip: "10.0.0.1/8" },
        dns: {},
      });
    }
  });
});

Deno.test("decodeResult() reads in the version that the result names", async (t) => {
  const ip4 = { ip: "1.2.3.4/24" };
  const ips = [{ address: "1.2.3.4/24" }];
  const rows: [string, unknown, string | undefined][] = [
    ["0.2.0", { cniVersion: "0.2.0", ip4 }, "1.1.0"],
    ["1.0.0", { cniVersion: "1.0.0", ips }, "0.2.0"],
    ["no version is 0.1.0", { ip4 }, undefined],
    ["an empty version counts as absent", { cniVersion: "", ip4 }, undefined],
    ["a null version counts as absent", { cniVersion: null, ip4 }, undefined],
    ["no version is the default version", { ips }, "0.3.1"],
    ["keys in another case", { CNIVERSION: "1.1.0", IPs: ips }, undefined],
    ["the IP version is not believed", {
      cniVersion: "0.4.0",
      ips: [{ version: 6, ...ips[0] }],
    }, undefined],
  ];
  await eachRow(t, rows, ([, document, defaultVersion]) => {
    const result = decodeResult(document, defaultVersion);
    assertEquals(result.ips, [{ address: Cidr.parse("1.2.3.4/24") }]);
    assertEquals(result.unknownKeys, undefined);
  });
});

Deno.test("decodeResult() takes null and empty text as absent", () => {
  const result = decodeResult({
    cniVersion: "1.1.0",
    interfaces: [{ name: null, mac: "", mtu: 0, sandbox: "", pciID: null }],
    ips: [{ address: "10.0.0.1/8", gateway: "", interface: null }],
    routes: null,
    dns: { nameservers: null, domain: null },
  });
  assertEquals(result, {
    ...emptyResult(),
    interfaces: [{ name: "" }],
    ips: [{ address: Cidr.parse("10.0.0.1/8") }],
  });
});

testRows("addresses keep their host bits and print in canonical form", [
  ["10.1.2.3/8", "10.1.2.3/8"],
  ["2001:DB8:0:0::0001/64", "2001:db8::1/64"],
  ["::ffff:1.2.3.4/120", "1.2.3.4/24"],
], ([given, printed]: [string, string]) => {
  const { ips, routes } = convert({
    cniVersion: "1.1.0",
    ips: [{ address: given }],
    routes: [{ dst: given }],
  }, "1.1.0");
  assertEquals<unknown>({ ips, routes }, {
    ips: [{ address: printed }],
    routes: [{ dst: printed }],
  });
});

Deno.test("decodeResult() refuses malformed results", async (t) => {
  const rows: [unknown, string][] = [
    [null, "expected an object, got null"],
    [[], "expected an object, got an array"],
    ["{}", "expected an object, got a string"],
    [{ cniVersion: 1 }, "cniVersion: expected a string, got a number"],
    [{ ips: {} }, "ips: expected an array, got an object"],
    [{ ips: [null] }, "ips[0]: expected an object, got null"],
    [{ ips: [{}] }, "ips[0].address: missing"],
    [
      { ips: [{ address: 5 }] },
      "ips[0].address: expected a string, got a number",
    ],
    [
      { ips: [{ address: "10.0.0.1" }] },
      "ips[0].address: invalid CIDR address: 10.0.0.1",
    ],
    [
      { ips: [{ address: "1.2.3.4/8", gateway: "1.2.3.x" }] },
      "ips[0].gateway: invalid IP address: 1.2.3.x",
    ],
    [
      { ips: [{ address: "1.2.3.4/8", interface: 0.5 }] },
      "ips[0].interface: expected an integer, got 0.5",
    ],
    [{ routes: [{ gw: "::1" }] }, "routes[0].dst: missing"],
    [
      { interfaces: [{ name: 1 }] },
      "interfaces[0].name: expected a string, got a number",
    ],
    [{ dns: { search: "a" } }, "dns.search: expected an array, got a string"],
  ];
  await eachRow(t, rows, ([document, problem]) => {
    assertEquals(failureOf(() => decodeResult(document, "1.1.0")), [
      ErrorCode.DecodingFailure,
      `Cannot decode result: ${problem}`,
    ]);
  }, ([, problem]) => problem);
  await t.step("0.2.0 without an address", () => {
    const document = { ip4: { gateway: "1.2.3.4" } };
    assertEquals(failureOf(() => decodeResult(document, "0.2.0")), [
      ErrorCode.DecodingFailure,
      "Cannot decode result: ip4.ip: missing",
    ]);
  });
});

Deno.test("a version that never was is refused", async (t) => {
  const expected: [number, string] = [
    ErrorCode.IncompatibleVersion,
    `unsupported CNI result version "1.0.1"`,
  ];
  const rows: [string, () => unknown][] = [
    ["in a result", () => decodeResult({ cniVersion: "1.0.1" })],
    ["as the default", () => decodeResult({}, "1.0.1")],
    ["to print", () => encodeResult(GOLDEN, "1.0.1")],
    [
      "in a configuration",
      () => parsePrevResult({ cniVersion: "1.0.1", prevResult: {} }),
    ],
  ];
  await eachRow(t, rows, ([, fn]) => assertEquals(failureOf(fn), expected));
});

Deno.test("parsePrevResult() returns undefined if there is no result", () => {
  assertEquals(parsePrevResult({ cniVersion: "1.1.0" }), undefined);
});

Deno.test("parsePrevResult() reads a result of the configuration's family", async (t) => {
  const ips = [{ version: "4", interface: 0, address: "1.2.3.30/24" }];
  const rows: [string, string, string | undefined][] = [
    ["the same version", "1.0.0", "1.0.0"],
    ["another version of the family", "1.1.0", "1.0.0"],
    ["an older family", "0.3.0", "0.4.0"],
    ["no version", "0.4.0", undefined],
    ["an empty version", "1.1.0", ""],
  ];
  await eachRow(t, rows, ([, configVersion, ownVersion]) => {
    const prevResult = omitAbsent<Record<string, unknown>>({
      cniVersion: ownVersion,
      interfaces: [{ name: "eth0", pciID: "8086:9a01", socketPath: "/s" }],
      ips,
    });
    const config = { cniVersion: configVersion, prevResult };
    assertEquals(parsePrevResult(config), {
      ...emptyResult(),
      interfaces: [{ name: "eth0", socketPath: "/s", pciId: "8086:9a01" }],
      ips: [{ interface: 0, address: Cidr.parse("1.2.3.30/24") }],
    });
  });
  await t.step("no version anywhere", () => {
    const prevResult = { ip4: { ip: "1.2.3.30/24" } };
    assertEquals(parsePrevResult({ prevResult })?.ips, [
      { address: Cidr.parse("1.2.3.30/24") },
    ]);
  });
});

Deno.test("parsePrevResult() refuses a result of another family", async (t) => {
  const rows: [string | undefined, string, string][] = [
    ["1.1.0", "5678.456", "1.0.0 1.1.0"],
    ["1.1.0", "0.2.0", "1.0.0 1.1.0"],
    ["1.1.0", "0.4.0", "1.0.0 1.1.0"],
    ["0.4.0", "1.0.0", "0.3.0 0.3.1 0.4.0"],
    ["0.2.0", "0.3.0", " 0.1.0 0.2.0"],
    [undefined, "0.3.0", " 0.1.0 0.2.0"],
  ];
  for (const [configVersion = "", ownVersion, supported] of rows) {
    await t.step(`"${configVersion}" with ${ownVersion}`, () => {
      const config = {
        cniVersion: configVersion,
        prevResult: { cniVersion: ownVersion, ip4: { ip: "1.2.3.30/24" } },
      };
      assertEquals(failureOf(() => parsePrevResult(config)), [
        ErrorCode.IncompatibleVersion,
        `could not parse prevResult: result type supports [${supported}] ` +
        `but unmarshalled CNIVersion is "${ownVersion}"`,
      ]);
    });
  }
});

Deno.test("parsePrevResult() refuses malformed results", () => {
  const config = { cniVersion: "1.1.0", prevResult: { ips: [{}] } };
  assertEquals(failureOf(() => parsePrevResult(config)), [
    ErrorCode.InvalidNetworkConfig,
    "Cannot decode prevResult: ips[0].address: missing",
  ]);
});

/** Draws from a sequence that is the same in every run. */
class Draw {
  #state = 1;

  /** An integer from 0 to `limit - 1`. Source: Numerical Recipes, ranqd1. */
  below(limit: number): number {
    this.#state = Math.imul(this.#state, 1664525) + 1013904223 >>> 0;
    return (this.#state >>> 8) % limit;
  }

  maybe<T>(make: () => T): T | undefined {
    return this.below(2) === 0 ? make() : undefined;
  }

  list<T>(make: () => T): T[] {
    return Array.from({ length: this.below(4) }, make);
  }

  ip(family: number): Ip {
    const last = this.below(256);
    return Ip.parse(family === 4 ? `10.0.0.${last}` : `fd00::${last}`);
  }

  cidr(family: number): Cidr {
    return Cidr.of(this.ip(family), this.below(family === 4 ? 33 : 129));
  }

  family(): number {
    return this.below(2) === 0 ? 4 : 6;
  }

  unknownKeys(): JsonObject | undefined {
    return this.maybe(() => ({ [`x${this.below(9)}`]: [this.below(9)] }));
  }

  interface(): Interface {
    return omitAbsent<Interface>({
      name: `eth${this.below(9)}`,
      mac: this.maybe(() => "02:00:00:00:00:01"),
      mtu: this.maybe(() => 1 + this.below(9000)),
      sandbox: this.maybe(() => "/var/run/netns/a"),
      socketPath: this.maybe(() => "/s"),
      pciId: this.maybe(() => "0000:00:1f.6"),
      unknownKeys: this.unknownKeys(),
    });
  }

  ipConfig(): IpConfig {
    const family = this.family();
    return omitAbsent<IpConfig>({
      interface: this.maybe(() => this.below(3)),
      address: this.cidr(family),
      gateway: this.maybe(() => this.ip(family)),
      unknownKeys: this.unknownKeys(),
    });
  }

  route(): Route {
    const family = this.family();
    return omitAbsent<Route>({
      dst: this.cidr(family),
      gw: this.maybe(() => this.ip(family)),
      mtu: this.maybe(() => 1 + this.below(9000)),
      advmss: this.maybe(() => 1 + this.below(9000)),
      priority: this.maybe(() => 1 + this.below(9)),
      table: this.maybe(() => this.below(256)),
      scope: this.maybe(() => this.below(256)),
      unknownKeys: this.unknownKeys(),
    });
  }

  result(): Result {
    return omitAbsent<Result>({
      interfaces: this.list(() => this.interface()),
      ips: this.list(() => this.ipConfig()),
      routes: this.list(() => this.route()),
      dns: {
        nameservers: this.list(() => String(this.ip(4))),
        domain: this.maybe(() => "example.org") ?? "",
        search: this.list(() => "example.org"),
        options: this.list(() => "ndots:5"),
      },
      unknownKeys: this.unknownKeys(),
    });
  }
}

/** The parts of a result that a version can express. */
function project(result: Result, version: string): Result {
  if (isAtLeast(version, "1.0.0")) return result;
  if (isAtLeast(version, "0.3.0")) {
    const interfaces = result.interfaces.map((link) => {
      const { mtu: _, socketPath: __, pciId: ___, ...others } = link;
      return others;
    });
    return { ...result, interfaces };
  }
  const first = (family: number): IpConfig[] =>
    result.ips.filter(({ address }) => address.family === family).slice(0, 1);
  const ips = [...first(4), ...first(6)];
  return {
    interfaces: [],
    ips: ips.map(({ address, gateway }) =>
      omitAbsent<IpConfig>({ address, gateway })
    ),
    routes: ips.flatMap(({ address }) =>
      result.routes.filter(({ dst }) => dst.family === address.family)
    ).map(({ dst, gw }) => omitAbsent<Route>({ dst, gw })),
    dns: result.dns,
  };
}

Deno.test("what is printed reads as the same result, as far as the version goes", async (t) => {
  const draw = new Draw();
  await eachRow(t, SPEC_VERSIONS, (version) => {
    for (let i = 0; i < 200; i++) {
      const result = draw.result();
      const needsIp = familyOf(version) === 0;
      if (needsIp && result.ips.length === 0) continue;
      const printed = formatResult(result, version);
      const read = decodeResult(JSON.parse(printed));
      assertEquals(read, project(result, version), printed);
      assertEquals(formatResult(read, version), printed);
    }
  });
});
