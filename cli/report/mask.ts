/**
 * Masks secrets in configurations, caches and logs.
 *
 * @module
 */

/** Stands for a secret. */
const MASK = "***";

/** Keys of secrets in JSON and YAML. Paths of files are not secrets. */
const SECRET =
  /(["']?)([\w.-]*(?:token|passw(?:or)?d|secret|credential|api_?key|(?:client-key|certificate-authority|client-certificate)-data|private_?key)[\w.-]*)\1(\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}\]]+)/gi;

/** Texts that are secrets wherever they are. */
const ANYWHERE: readonly [RegExp, string][] = [
  [
    /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
    MASK,
  ],
  [/\beyJ[\w-]+\.[\w-]+\.[\w-]*/g, MASK],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]+/gi, `$1 ${MASK}`],
  [/(\w:\/\/)[^\s/@:]+:[^\s/@]+@/g, `$1${MASK}@`],
];

/** Replaces the values of secrets by `***`. */
export function maskSecrets(text: string): string {
  const unkeyed = ANYWHERE.reduce(
    (masked, [pattern, by]) => masked.replaceAll(pattern, by),
    text,
  );
  return unkeyed.replaceAll(
    SECRET,
    (whole, quote: string, key: string, colon: string, value: string) => {
      const isPath = /^["']?\//.test(value);
      const isBlank = /^(?:["']{2}|null|true|false|[[{>|].*)$/.test(value);
      return isPath || isBlank
        ? whole
        : `${quote}${key}${quote}${colon}"${MASK}"`;
    },
  );
}

/** Formats a value as JSON, with secrets masked. */
export function formatMasked(value: unknown): string {
  const mask = (key: string, inner: unknown): unknown => {
    if (typeof inner !== "string") return inner;
    // As in a text: the key decides, or the value itself.
    const line = `${key}: ${JSON.stringify(inner)}`;
    return maskSecrets(line) === `${key}: "${MASK}"`
      ? MASK
      : maskSecrets(inner);
  };
  return `${JSON.stringify(value, mask, 2)}\n`;
}
