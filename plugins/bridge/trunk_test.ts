import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { trunkRangesOf, type VlanRange } from "./trunk.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

type Items = Parameters<typeof trunkRangesOf>[0];

testRows(
  "trunkRangesOf() returns VLANs in order, without duplicates",
  [
    ["none", [], []],
    ["an item without anything", [{}], []],
    ["one", [{ id: 101 }], [{ first: 101, last: 101 }]],
    ["a range", [{ minID: 200, maxID: 210 }], [{ first: 200, last: 210 }]],
    ["a range of one", [{ minID: 7, maxID: 7 }], [{ first: 7, last: 7 }]],
    ["both in one item", [{ id: 5, minID: 10, maxID: 11 }], [
      { first: 5, last: 5 },
      { first: 10, last: 11 },
    ]],
    [
      "several that overlap and touch",
      [{ minID: 10, maxID: 20 }, { id: 21 }, { id: 15 }, {
        minID: 5,
        maxID: 12,
      }],
      [{ first: 5, last: 21 }],
    ],
    ["not in order", [{ id: 30 }, { id: 10 }, { id: 30 }], [
      { first: 10, last: 10 },
      { first: 30, last: 30 },
    ]],
    ["all there are", [{ minID: 1, maxID: 4094 }], [{ first: 1, last: 4094 }]],
  ],
  ([, items, want]: [string, Items, VlanRange[]]) =>
    assertEquals(trunkRangesOf(items), want),
);

Deno.test("trunkRangesOf() refuses invalid VLAN IDs", async (t) => {
  const rows: [items: Items, message: string][] = [
    [
      [{ minID: 100, id: 1 }],
      "minID and maxID should be configured simultaneously, maxID is missing",
    ],
    [[{ minID: 4095, maxID: 4096 }], "incorrect trunk minID parameter"],
    [[{ minID: -3, maxID: 5 }], "incorrect trunk minID parameter"],
    [[{ minID: 1, maxID: 0 }], "incorrect trunk maxID parameter"],
    [[{ id: 0 }], "incorrect trunk id parameter"],
    [[{ id: -1 }], "incorrect trunk id parameter"],
  ];
  await eachRow(t, rows, ([items, message]) => {
    const error = assertThrows(() => trunkRangesOf(items), CniError);
    assertEquals([error.code, error.message], [7, message]);
  }, ([items]) => JSON.stringify(items));
});
