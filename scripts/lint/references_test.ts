import { assertEquals } from "@std/assert";
import {
  findDenoMember,
  isReference,
  listDestructuredDenoMembers,
} from "./references.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

/** Lints a source with one visitor, which collects something. */
function visit(source: string, visitor: Deno.lint.LintVisitor): void {
  const rule: Deno.lint.Rule = { create: () => visitor };
  Deno.lint.runPlugin({ name: "cni", rules: { rule } }, "/a.ts", source);
}

testRows<[string, number]>("isReference() tells variables from keys", [
  ["it;", 1],
  ["f(it);", 1],
  ["it.a;", 1],
  ["a[it];", 1],
  ["globalThis.it;", 1],
  ["let a: it;", 1],
  ["let a: it.B;", 1],
  ["let a: typeof it;", 1],
  ["({ it });", 1],
  ["({ a: it });", 1],
  ["({ [it]: 1 });", 1],
  ["a.it;", 0],
  ["a?.it();", 0],
  ["({ it: 1 });", 0],
  ["class A { it = 1; }", 0],
  ["class A { it() {} }", 0],
  ["interface A { it: 1; }", 0],
  ["interface A { it(): void; }", 0],
  ["let a: B.it;", 0],
], ([source, references]) => {
  let count = 0;
  visit(source, {
    Identifier(node): void {
      if (node.name === "it" && isReference(node)) count++;
    },
  });
  assertEquals(count, references);
});

Deno.test("findDenoMember() names the member of Deno", async (t) => {
  const rows: [source: string, members: string[]][] = [
    ["Deno.exit(1);", ["exit"]],
    ['Deno["exit"](1);', ["exit"]],
    ["globalThis.Deno.exit(1);", ["exit"]],
    ["Deno.env.get(a);", ["env"]],
    ["a.Deno.exit;", []],
    ["a.exit;", []],
    ["Deno;", []],
  ];
  await eachRow(t, rows, ([source, members]) => {
    const found: string[] = [];
    visit(source, {
      MemberExpression(node): void {
        const member = findDenoMember(node);
        if (member) found.push(member);
      },
    });
    assertEquals(found, members);
  });
});

testRows("listDestructuredDenoMembers() names what is taken out of Deno", [
  ["const { exit, env: environment } = Deno;", ["exit", "env"]],
  ["const { exit, ...rest } = globalThis.Deno;", ["exit"]],
  ["const { exit } = program;", []],
  ["const deno = Deno;", []],
  ["let exit;", []],
], ([source, members]: [string, string[]]) => {
  const found: string[] = [];
  visit(source, {
    VariableDeclarator(node): void {
      found.push(...listDestructuredDenoMembers(node));
    },
  });
  assertEquals(found, members);
});
