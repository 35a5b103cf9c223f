/**
 * Log lines on stderr, `level=warn plugin=ptp msg="..." key=value`.
 *
 * @module
 */

/** The severity of a line. */
export type LogLevel = "info" | "warn" | "error";

/** Additional values of a line. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes the log of one plugin call. */
export interface Log {
  /** Logs an unusual action. */
  info(message: string, fields?: LogFields): void;
  /** Logs a problem that the call could handle. */
  warn(message: string, fields?: LogFields): void;
  /** Logs a problem that remains. */
  error(message: string, fields?: LogFields): void;
}

/**
 * Creates a log.
 *
 * @param fields Added to every line
 * @param write Receives each line with its line end
 */
export function createLog(
  fields: LogFields,
  write: (line: string) => void,
): Log {
  const line = (level: LogLevel) => (msg: string, more: LogFields = {}): void =>
    write(`${formatFields({ level, ...fields, msg, ...more })}\n`);
  return { info: line("info"), warn: line("warn"), error: line("error") };
}

/** Formats values as `key=value`, without empty ones. */
export function formatFields(fields: LogFields): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => `${key}=${formatValue(String(value))}`)
    .join(" ");
}

/** Quotes a value that has blanks, quotes or control characters. */
function formatValue(value: string): string {
  return /^[^\s\p{Cc}"=]+$/u.test(value) ? value : JSON.stringify(value);
}
