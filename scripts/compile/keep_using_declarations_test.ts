import { assertEquals } from "@std/assert";
import { keepUsingDeclarations } from "./keep_using_declarations.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("keepUsingDeclarations() adds a use behind each declaration", [
  ["{ using a = open();\nf(a.n); }", "{ using a = open();a;\nf(a.n); }"],
  [
    "await using a = await open(\n  () => 1,\n);\nf(a);",
    "await using a = await open(\n  () => 1,\n);a;\nf(a);",
  ],
  [
    "{ using a = open(() => { using b = c(); }); d(a); }",
    "{ using a = open(() => { using b = c();b; });a; d(a); }",
  ],
  ["{ using a = f(), b = g(a); }", "{ using a = f(), b = g(a);a;b; }"],
  ["{ using a = f()\n}", "{ using a = f();a;\n}"],
  ["for (using a of f()) g(a);", "for (using a of f()) g(a);"],
  [
    "for (using a of f()) { using b = a; }",
    "for (using a of f()) { using b = a;b; }",
  ],
  [
    "const text = `\n  using a = open();\n`;",
    "const text = `\n  using a = open();\n`;",
  ],
  ["const using = 1;\nf(using);", "const using = 1;\nf(using);"],
], ([source, kept]: [string, string]) => {
  assertEquals(keepUsingDeclarations(source), kept);
});
