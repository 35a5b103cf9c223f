/**
 * Keeps bundlers from breaking `using`.
 *
 * @module
 */

/** A declaration, as the bundler and `deno fmt` write it. */
const DECLARATION = /^(\s*)(?:await )?using (\w+) = /;

/**
 * Adds a second use of each `using` variable, a statement without effect: the
 * bundler puts the value of a variable that is used once in place of that use,
 * and then nothing is disposed of.
 *
 * Source: esbuild 0.25.5, which `deno bundle --minify` of Deno 2.9.6 runs.
 *
 * @param source A module, formatted
 */
export function keepUsing(source: string): string {
  const kept: string[] = [];
  let open: { readonly indent: number; readonly name: string } | undefined;
  for (const line of source.split("\n")) {
    if (open !== undefined && beginsStatement(line, open.indent)) {
      kept.push(`${open.name};`);
      open = undefined;
    }
    kept.push(line);
    const [, indent, name] = DECLARATION.exec(line) ?? [];
    if (indent !== undefined && name !== undefined) {
      open = { indent: indent.length, name };
    }
  }
  return kept.join("\n");
}

/** Reports whether a line follows a statement with this indentation. */
function beginsStatement(line: string, indent: number): boolean {
  const text = line.trimStart();
  if (text === "") return false;
  const depth = line.length - text.length;
  return depth < indent || depth === indent && !/^[)\]}]/.test(text);
}
