import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { delegatesWith, type Gateways } from "../testing/default_routes.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import type { Delegate } from "../model/delegate.ts";
import { markDefaultRoutes } from "./default_route_marks.ts";

type Marks = readonly [v4: boolean, v6: boolean];

function marksOf(delegates: readonly Delegate[]): Marks[] {
  return delegates.map((one) => [one.isFilterV4Gateway, one.isFilterV6Gateway]);
}

const MARKS: Readonly<
  Record<
    string,
    readonly [requests: readonly Gateways[], marks: readonly Marks[]]
  >
> = {
  "nobody asks": [[undefined, undefined], [[false, false], [false, false]]],
  "none at all": [[], []],
  "an empty list": [[undefined, []], [[true, true], [true, true]]],
  "one of IPv4": [[undefined, ["10.1.1.1"]], [[true, true], [false, true]]],
  "one of IPv6": [[["2001:db8::1"], undefined], [[true, false], [true, true]]],
  "one of each": [[["10.1.1.1", "fe80::1"]], [[false, false]]],
  "one of each, of different networks": [
    [["10.1.1.1"], ["fe80::1"], []],
    [[false, true], [true, false], [true, true]],
  ],
  "IPv4 in the clothes of IPv6": [[["::ffff:10.1.1.1"]], [[false, true]]],
};

Deno.test("markDefaultRoutes() marks delegates by family", async (t) => {
  await eachRow(t, Object.entries(MARKS), ([, [requests, marks]]) => {
    const delegates = delegatesWith(...requests);
    const marked = markDefaultRoutes(delegates);
    assertEquals(marksOf(marked), [...marks]);
    assertEquals(
      marked.map(({ name, request }) => ({ name, request })),
      delegates.map(({ name, request }) => ({ name, request })),
    );
    assertEquals(delegates, delegatesWith(...requests));
  });
});

Deno.test("markDefaultRoutes() refuses several gateways of a family", async (t) => {
  const rows: Readonly<Record<string, readonly Gateways[]>> = {
    "of one network": [["10.1.1.1", "10.1.1.2"]],
    "of two networks": [["10.1.1.1"], undefined, ["10.2.1.1", "fe80::1"]],
    "of IPv6": [["fe80::1"], ["fe80::2"]],
    "the same one": [["10.1.1.1", "10.1.1.1"]],
  };
  await eachRow(t, Object.entries(rows), ([, requests]) => {
    const error = assertThrows(
      () => markDefaultRoutes(delegatesWith(...requests)),
      CniError,
    );
    assertEquals(
      error.message,
      "multus does not support ECMP for default-route",
    );
    assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
  });
});
