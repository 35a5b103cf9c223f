/**
 * Keeps bundlers from breaking `using`. `deno bundle` has no option for a target that
 * would lower it.
 *
 * @module
 */

import { type AnyNode, parse, type VariableDeclaration } from "acorn";

/**
 * Adds a second use of each `using` variable, a statement without effect: the
 * bundler puts the value of a variable that is used once in place of that use,
 * and then nothing is disposed of.
 *
 * Source: esbuild 0.25.5, which `deno bundle --minify` of Deno 2.9.6 runs.
 *
 * @param source A module of JavaScript
 * @throws {SyntaxError} If it cannot be parsed
 */
export function keepUsingDeclarations(source: string): string {
  if (!source.includes("using")) return source;
  const module = parse(source, {
    ecmaVersion: "latest",
    sourceType: "module",
  });
  const parts: string[] = [];
  let done = 0;
  for (const { end, declarations } of listUsing(module)) {
    const names = declarations.map(({ id }) => source.slice(id.start, id.end));
    const gap = source[end - 1] === ";" ? "" : ";";
    parts.push(source.slice(done, end), gap, ...names.map((it) => `${it};`));
    done = end;
  }
  return parts.join("") + source.slice(done);
}

/** Lists the `using` declarations of statements, in their order. */
function listUsing(node: AnyNode): VariableDeclaration[] {
  if (node.type === "VariableDeclaration") {
    const isUsing = node.kind === "using" || node.kind === "await using";
    const inner = listChildren(node).flatMap(listUsing);
    return isUsing ? [...inner, node] : inner;
  }
  const isLoop = node.type === "ForOfStatement" || node.type === "ForStatement";
  return listChildren(node)
    // The variable of a loop is not a statement.
    .flatMap((child) =>
      isLoop && child.type === "VariableDeclaration"
        ? listChildren(child).flatMap(listUsing)
        : listUsing(child)
    );
}

function listChildren(node: AnyNode): AnyNode[] {
  return Object.values(node).flat().filter(isNode)
    .sort((left, right) => left.start - right.start);
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === "object" && value !== null && "type" in value &&
    "start" in value;
}
