/**
 * Texts as words of command lines, which people paste into a shell.
 *
 * @module
 */

/** Formats a text as a word for bash, quoted if necessary. */
export function quote(text: string): string {
  return /^[\w./:@%+,-]+$/.test(text) ? text : quoteAlways(text);
}

/** Formats a text as a quoted word for bash. */
export function quoteAlways(text: string): string {
  if (!text.includes("\n")) return `'${text.replaceAll("'", "'\\''")}'`;
  const escaped = text.replaceAll(/[\\']/g, "\\$&").replaceAll("\n", "\\n");
  return `$'${escaped}'`;
}

/**
 * Creates a command line from a template: each value becomes a word, or a part of a
 * word.
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
