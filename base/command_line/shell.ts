/**
 * Texts as words of command lines, which people paste into a shell.
 *
 * @module
 */

/** Writes a text as a word for bash, quoted if it needs to be. */
export function quote(text: string): string {
  return /^[\w./:@%+,-]+$/.test(text) ? text : quoteAlways(text);
}

/** Writes a text as a quoted word for bash. */
export function quoteAlways(text: string): string {
  if (!text.includes("\n")) return `'${text.replaceAll("'", "'\\''")}'`;
  const escaped = text.replaceAll(/[\\']/g, "\\$&").replaceAll("\n", "\\n");
  return `$'${escaped}'`;
}

/**
 * Makes a command line of a template: each value is one word, or a part of one.
 *
 * @example
 * ```ts
 * const name = "a b";
 * shell`rm /run/${name}`; // rm /run/'a b'
 * ```
 */
export function shell(
  { raw }: TemplateStringsArray,
  ...values: readonly unknown[]
): string {
  return String.raw({ raw }, ...values.map((value) => quote(String(value))));
}
