/**
 * Log lines on stderr, `level=warn plugin=ptp msg="..." key=value`.
 *
 * @module
 */

/** How much a line matters. */
export type LogLevel = "info" | "warn" | "error";

/** Values beside the message. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes log lines for one call of one plugin. */
export interface Log {
  /** Tells what was done beyond the ordinary. */
  info(message: string, fields?: LogFields): void;
  /** Tells of something wrong that the call got over. */
  warn(message: string, fields?: LogFields): void;
  /** Tells of something wrong that was left behind. */
  error(message: string, fields?: LogFields): void;
}

/**
 * Makes a log.
 *
 * @param fields Stand in every line
 * @param write Takes one line with its end
 */
export function createLog(
  fields: LogFields,
  write: (line: string) => void,
): Log {
  const line = (level: LogLevel) => (msg: string, more: LogFields = {}): void =>
    write(`${formatFields({ level, ...fields, msg, ...more })}\n`);
  return { info: line("info"), warn: line("warn"), error: line("error") };
}

/** Formats values as `key=value`, without those that are empty. */
export function formatFields(fields: LogFields): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => `${key}=${formatValue(String(value))}`)
    .join(" ");
}

/** Quotes what has blanks, quotes or control characters in it. */
function formatValue(value: string): string {
  return /^[^\s\p{Cc}"=]+$/u.test(value) ? value : JSON.stringify(value);
}
