/**
 * The values that travel in configurations and results, and CNI_ARGS.
 *
 * Source: containernetworking/cni pkg/types/{types,args}_test.go.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { loadArgs, parseArgBoolean } from "../../cni/call/args.ts";
import { CniError } from "../../base/error.ts";
import { decode } from "../../base/json/json.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { encodeResult } from "../../cni/result/encoding.ts";
import { cidrSchema, routeSchema } from "../../cni/config/types.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { expand, failureOf } from "./rows.ts";

/** Builds a row on a value that is not an address with a prefix length. */
function isNoCidr(value: unknown, problem: string): Row {
  return () => {
    assertEquals(failureOf(() => decode(cidrSchema(), value, "it")), {
      code: 7,
      msg: `Cannot decode it: ${problem}`,
    });
  };
}

conformance("types", {
  ...expand([["1.2.3.4/24", "1.2.3.4"], ["2001:db8::5/32", "2001:db8::5"]], (
    [text, ip],
  ) => [
    `${text} keeps its host's address`,
    () => assertEquals(Cidr.parse(text).ip.toString(), ip),
  ]),
  ...expand(["10.1.2.3/24", "2001:db8::/32", "10.0.0.0/8"], (text) => [
    `${text} is printed as it is read`,
    () => assertEquals(`${decode(cidrSchema(), text, "it")}`, text),
  ]),
  "1.2.3/45 is not an address": isNoCidr(
    "1.2.3/45",
    "invalid CIDR address: 1.2.3/45",
  ),
  "10.0.0.1/99 is not an address": isNoCidr(
    "10.0.0.1/99",
    "invalid CIDR address: 10.0.0.1/99",
  ),
  "an address without a prefix length is refused": isNoCidr(
    "10.0.0.1",
    "invalid CIDR address: 10.0.0.1",
  ),
  "leading zeros are refused": isNoCidr(
    "010.0.0.1/8",
    "invalid CIDR address: 010.0.0.1/8",
  ),
  "a number is not an address": isNoCidr(5, "expected a string, got a number"),
});

/** Reads a route and prints it. */
function reprint(route: object): unknown {
  const document = { cniVersion: "1.1.0", routes: [route] };
  const { routes } = encodeResult(decodeResult(document), "1.1.0");
  return routes;
}

const ROUTE = {
  dst: "1.2.3.0/24",
  gw: "1.2.3.1",
  mtu: 1500,
  advmss: 1340,
  priority: 100,
  table: 50,
  scope: 253,
};

conformance("types", {
  "a route is printed as it is read": () => {
    assertEquals(reprint(ROUTE), [ROUTE]);
  },
  ...expand(["gw", "mtu", "advmss", "priority", "table", "scope"], (key) => [
    `a route without ${key} stays without`,
    () => {
      const { [key]: _, ...route } = ROUTE as Record<string, unknown>;
      assertEquals(reprint(route), [route]);
    },
  ]),
  "a route's table and scope of 0 are printed": () => {
    const route = { dst: "1.2.3.0/24", table: 0, scope: 0 };
    assertEquals(reprint(route), [route]);
  },
  "a route's mtu, advmss and priority of 0 are absent": () => {
    const zeros = { mtu: 0, advmss: 0, priority: 0 };
    assertEquals(reprint({ dst: "::/0", ...zeros }), [{ dst: "::/0" }]);
  },
  "a gateway 1.2.3.x is refused": () => {
    const route = { ...ROUTE, gw: "1.2.3.x" };
    assertEquals(
      failureOf(() => decode(routeSchema(), route, "route")).msg,
      "Cannot decode route: gw: invalid IP address: 1.2.3.x",
    );
  },
  "a route without dst is refused": () => {
    const { dst: _, ...route } = ROUTE;
    assertEquals(
      failureOf(() => decode(routeSchema(), route, "route")).msg,
      "Cannot decode route: dst: missing",
    );
  },
  "an error without details is its message": () => {
    assertEquals(String(new CniError(7, "some message")), "some message");
  },
  "an error with details has them behind a semicolon": () => {
    const error = new CniError(7, "some message", { details: "some details" });
    assertEquals(String(error), "some message; some details");
  },
});

const KNOWN = { IP: Ip.parse, Sticky: parseArgBoolean };

/** Builds a row: CNI_ARGS is refused with these words. */
function isRefused(args: string, problem: string): Row {
  return () => {
    const { code, msg } = failureOf(() => loadArgs(args, KNOWN));
    assertEquals([code, msg], [4, `CNI_ARGS: ${problem}`]);
  };
}

/** Builds a row: nothing in CNI_ARGS is for the plugin. */
function holdsNothing(args: string): Row {
  return () => assertEquals(loadArgs(args, KNOWN), {});
}

conformance("types", {
  "an empty CNI_ARGS is fine": holdsNothing(""),
  ...expand(["True", "true", "1", "TRUE"], (yes) => [
    `CNI_ARGS IgnoreUnknown=${yes};Unk=nown is fine`,
    holdsNothing(`IgnoreUnknown=${yes};Unk=nown`),
  ]),
  "CNI_ARGS IgnoreUnknown=1 is fine": holdsNothing("IgnoreUnknown=1"),
  "CNI_ARGS Unk=nown is code 4": isRefused(
    "Unk=nown",
    'unknown args ["Unk=nown"]',
  ),
  "CNI_ARGS IgnoreUnknown=0;Unk=nown is code 4": isRefused(
    "IgnoreUnknown=0;Unk=nown",
    'unknown args ["Unk=nown"]',
  ),
  "CNI_ARGS IgnoreUnknown=0, Unk=nown is code 4": isRefused(
    "IgnoreUnknown=0, Unk=nown",
    'invalid pair "IgnoreUnknown=0, Unk=nown"',
  ),
  ...expand(["IP=10.0.0.1;", ";", "IP", "IP=a=b"], (args) => [
    `CNI_ARGS ${args} has an invalid pair`,
    () => {
      const { code, msg = "" } = failureOf(() => loadArgs(args, KNOWN));
      assertEquals(code, 4);
      assert(msg.includes("ARGS: invalid pair"), msg);
    },
  ]),
  "keys of CNI_ARGS are case-sensitive": isRefused(
    "ip=10.0.0.1",
    'unknown args ["ip=10.0.0.1"]',
  ),
  "a value of CNI_ARGS is read by its type": () => {
    const { IP } = loadArgs("IP=10.0.0.1", KNOWN);
    assert(IP instanceof Ip && IP.toString() === "10.0.0.1");
  },
  "a value of CNI_ARGS that its type cannot read is code 4": isRefused(
    "IP=ten",
    'error parsing value of pair "IP=ten"',
  ),
  "a key of CNI_ARGS with a type without a parser is code 4": () => {
    const parsers = { IP: undefined } as unknown as typeof KNOWN;
    const { code, msg } = failureOf(() => loadArgs("IP=10.0.0.1", parsers));
    assertEquals(
      [code, msg],
      [4, 'CNI_ARGS: error parsing value of pair "IP=10.0.0.1"'],
    );
  },
  ...expand(
    [["True", true], ["true", true], ["1", true], ["False", false]]
      .concat([["false", false], ["0", false]]),
    ([text, value]) => [
      `CNI_ARGS has ${text} for ${value}`,
      () => {
        const { Sticky } = loadArgs(`Sticky=${text}`, KNOWN);
        assertEquals<unknown>(Sticky, value);
      },
    ],
  ),
  ...expand(["yes", "2", "on"], (text) => [
    `CNI_ARGS has no boolean ${text}`,
    isRefused(
      `Sticky=${text}`,
      `error parsing value of pair "Sticky=${text}"`,
    ),
  ]),
});
