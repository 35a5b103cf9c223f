import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../base/error.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import { distribute } from "./add.ts";
import { type RangeSet, resolveRangeSet } from "./range.ts";
import { eachRow } from "../../tests/_harness/table.ts";

function setsOf(...sets: string[]): RangeSet[] {
  return sets.map((subnets) =>
    resolveRangeSet(
      subnets.split(" ").map((subnet) => ({ subnet: Cidr.parse(subnet) })),
      0,
    )
  );
}

Deno.test("distribute() assigns each requested address to the set that contains it", async (t) => {
  const sets = setsOf(
    "10.1.2.0/24 10.1.4.0/24",
    "10.1.3.0/24",
    "2001:db8::/64",
  );
  const rows: [requested: string, want: string][] = [
    ["", "- - -"],
    ["10.1.3.5", "- 10.1.3.5 -"],
    ["2001:db8::5 10.1.4.5", "10.1.4.5 - 2001:db8::5"],
    ["10.1.3.5 10.1.2.5 2001:db8::5", "10.1.2.5 10.1.3.5 2001:db8::5"],
  ];
  await eachRow(t, rows, ([requested, want]) => {
    const ips = requested.split(" ").filter(Boolean).map(Ip.parse);
    const given = distribute(ips, sets).map((request) =>
      request.requested ?? "-"
    );
    assertEquals(given.join(" "), want);
  }, ([requested]) => `"${requested}"`);
});

Deno.test("distribute() refuses an address that no remaining set contains", async (t) => {
  const sets = setsOf("10.1.2.0/24", "10.1.3.0/24");
  const rows: [requested: string, left: string][] = [
    ["10.9.9.9", "10.9.9.9"],
    ["10.1.2.5 10.1.2.6", "10.1.2.6"],
    ["::5 10.1.2.5 10.1.3.5 10.1.3.6", "::5 10.1.3.6"],
  ];
  await eachRow(t, rows, ([requested, left]) => {
    const ips = requested.split(" ").map(Ip.parse);
    const error = assertThrows(() => distribute(ips, sets), CniError);
    assertEquals(
      error.message,
      `failed to allocate all requested IPs: ${left}`,
    );
    assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
  });
});
