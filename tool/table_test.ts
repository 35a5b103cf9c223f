import { assertEquals } from "@std/assert";
import { chooseStyle } from "./style.ts";
import { type Column, formatTable } from "./table.ts";

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
