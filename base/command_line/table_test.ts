import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { chooseStyle } from "./style.ts";
import {
  type Column,
  formatListing,
  formatTable,
  type ListingFlags,
  wrap,
} from "./table.ts";

interface Fruit {
  readonly name: string;
  readonly note: string;
}

const columns: Column<Fruit>[] = [
  { heading: "NAME", cell: ({ name }) => name },
  {
    heading: "NOTE",
    cell: ({ note }) => note,
    mark: ({ note }, style) => note === "bad" ? style.red : undefined,
  },
];

Deno.test("formatTable() aligns columns by characters", () => {
  const rows = [
    { name: "🍏 apple", note: "" },
    { name: "fig", note: "very\tsweet" },
  ];
  assertEquals(
    formatTable(columns, rows, chooseStyle(false)),
    "NAME     NOTE\n🍏 apple  -\nfig      very\\u0009sweet",
  );
});

Deno.test("formatTable() highlights without moving columns", () => {
  assertEquals(
    formatTable(columns, [{ name: "kiwi", note: "bad" }], chooseStyle(true)),
    "\u001b[1mNAME\u001b[22m  \u001b[1mNOTE\u001b[22m\nkiwi  \u001b[31mbad\u001b[39m",
  );
});

Deno.test("formatTable() shows only headings without rows", () => {
  assertEquals(formatTable(columns, [], chooseStyle(false)), "NAME  NOTE");
});

Deno.test("formatTable() drops columns on a narrow terminal, and says which", () => {
  const narrow = columns.map((column) =>
    column.heading === "NOTE" ? { ...column, dropped: 1 } : column
  );
  assertEquals(
    formatTable(
      narrow,
      [{ name: "kiwi", note: "sour" }],
      chooseStyle(false, 8),
    ),
    "NAME\nkiwi\nNot shown at this width: NOTE (--wide\nshows all)",
  );
});

Deno.test("formatTable() wraps cells on a narrow terminal", () => {
  const narrow = columns.map((column): Column<Fruit> => ({
    ...column,
    narrow: "wrap",
  }));
  const rows = [
    { name: "kiwi", note: "green inside, brown outside and sour" },
    { name: "orange", note: "round" },
  ];
  assertEquals(
    formatTable(narrow, rows, chooseStyle(false, 28)),
    [
      "NAME    NOTE",
      "kiwi    green inside, brown",
      "        outside and sour",
      "orange  round",
    ].join("\n"),
  );
});

Deno.test("formatTable() makes blocks of rows that do not fit otherwise", () => {
  const rows = [
    { name: "orange-of-the-south", note: "round and orange" },
    { name: "kiwi", note: "" },
  ];
  assertEquals(
    formatTable(columns, rows, chooseStyle(false, 20)),
    [
      "NAME  orange-of-the-south",
      "NOTE  round and",
      "      orange",
      "",
      "NAME  kiwi",
    ].join("\n"),
  );
});

Deno.test("formatTable() cuts names in the middle while rows differ", () => {
  const narrow = columns.map((column): Column<Fruit> =>
    column.heading === "NAME" ? { ...column, narrow: "middle" } : column
  );
  const style = chooseStyle(false, 22);
  const rows = ["red", "green"].map((end) => ({
    name: `a-long-name-of-an-apple-${end}`,
    note: "sour",
  }));
  assertEquals(
    formatTable(narrow, rows, style),
    [
      "NAME              NOTE",
      "a-long-…pple-red  sour",
      "a-long-…le-green  sour",
      "Shortened: NAME (--wide shows all)",
    ].join("\n"),
  );
  const alike = ["one", "two"].map((middle) => ({
    name: `a-long-name-${middle}-of-an-apple`,
    note: "sour",
  }));
  assertEquals(
    formatTable(narrow, alike, style),
    [
      "NAME  a-long-name-one-of-an-apple",
      "NOTE  sour",
      "",
      "NAME  a-long-name-two-of-an-apple",
      "NOTE  sour",
    ].join("\n"),
  );
});

Deno.test("formatTable() moves a column below the rows on a narrow terminal", () => {
  const below = columns.map((column): Column<Fruit> =>
    column.heading === "NOTE" ? { ...column, narrow: "below" } : column
  );
  const rows = [
    { name: "kiwi", note: "green inside, brown outside" },
    { name: "fig", note: "" },
  ];
  assertEquals(
    formatTable(below, rows, chooseStyle(false, 24)),
    ["NAME", "kiwi", "  green inside, brown", "  outside", "fig"].join("\n"),
  );
  assertEquals(
    formatTable(below, rows, chooseStyle(false, 80)),
    "NAME  NOTE\nkiwi  green inside, brown outside\nfig   -",
  );
});

Deno.test("formatListing() shows names, or all columns", () => {
  const droppable = columns.map((column): Column<Fruit> =>
    column.heading === "NOTE" ? { ...column, dropped: 1 } : column
  );
  const rows = [{ name: "fig", note: "blue" }, { name: "fig", note: "green" }];
  const style = chooseStyle(false, 8);
  const format = (flags: ListingFlags): string =>
    formatListing(flags, droppable, rows, ({ name }) => name)(style);
  assertEquals(format({ output: "name" }), "fig");
  const wide = "NAME  NOTE\nfig   blue\nfig   green";
  assertEquals([format({ wide: true }), format({ output: "wide" })], [
    wide,
    wide,
  ]);
});

testRows("wrap() breaks a text into lines", [
  ["", 4, []],
  ["a b", 4, ["a b"]],
  ["one two", 4, ["one", "two"]],
  ["10.1.0.1,10.2.0.2", 12, ["10.1.0.1,", "10.2.0.2"]],
  ["/etc/cni/net.d is", 4, ["/etc/cni/net.d", "is"]],
  ["a abcdefgh", 4, ["a", "abcdefgh"]],
], ([text, width, lines]: [string, number, string[]]) => {
  assertEquals(wrap(text, width), lines);
});
