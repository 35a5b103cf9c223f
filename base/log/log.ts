/**
 * Log lines, `level=warn plugin=ptp msg="..." key=value`.
 *
 * `CNI_LOG_LEVEL` selects the lowest level to log, `info` by default.
 * `CNI_LOG_FORMAT=json` makes each line a JSON object with the time.
 *
 * @module
 */

import type { Environment } from "../process/environment.ts";

/** The severity of a line. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** Additional values of a line. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The levels, most verbose first. */
export const LOG_LEVELS: readonly LogLevel[] = [
  "debug",
  "info",
  "warn",
  "error",
];

/** Writes the log of one plugin call. */
export interface Log {
  /** Logs details for debugging. */
  debug(message: string, fields?: LogFields): void;
  /** Logs an unusual action. */
  info(message: string, fields?: LogFields): void;
  /** Logs a problem that the call could handle. */
  warn(message: string, fields?: LogFields): void;
  /** Logs a problem that remains. */
  error(message: string, fields?: LogFields): void;
}

/** A log line: `time`, `level`, the fields of the log, `msg`, and its own fields. */
export type LogRecord = LogFields & { readonly level: LogLevel };

/**
 * Creates a log.
 *
 * @param fields Added to every line
 * @param write Receives each line with its line end
 * @param env Contains `CNI_LOG_LEVEL` and `CNI_LOG_FORMAT`, if set
 */
export function createLog(
  fields: LogFields,
  write: (line: string, record: LogRecord) => void,
  env: Environment = {},
): Log {
  const lowest = findLowestLevel(env);
  const line =
    (level: LogLevel) => (msg: string, more: LogFields = {}): void => {
      if (LOG_LEVELS.indexOf(level) < lowest) return;
      const time = new Date().toISOString();
      const record = { time, level, ...fields, msg, ...more };
      const shown = isJsonLog(env) ? record : { ...record, time: undefined };
      write(formatRecord(shown, env), record);
    };
  return {
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
  };
}

/** Returns the index of the lowest level to log; `info` unless another is set. */
function findLowestLevel({ CNI_LOG_LEVEL = "" }: Environment): number {
  const level = LOG_LEVELS.indexOf(CNI_LOG_LEVEL.toLowerCase() as LogLevel);
  return level < 0 ? LOG_LEVELS.indexOf("info") : level;
}

/** Reports whether to log stack traces and other details. */
export function isDebugLog(env: Environment): boolean {
  return findLowestLevel(env) === 0;
}

/** Reports whether log lines are JSON. */
export function isJsonLog({ CNI_LOG_FORMAT }: Environment): boolean {
  return CNI_LOG_FORMAT?.toLowerCase() === "json";
}

/** Formats a record in the format that the environment selects, with its line end. */
export function formatRecord(record: LogFields, env: Environment): string {
  if (!isJsonLog(env)) return `${formatFields(record)}\n`;
  const values = Object.entries(record)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => [key, isPlain(value) ? value : String(value)]);
  return `${JSON.stringify(Object.fromEntries(values))}\n`;
}

function isPlain(value: unknown): boolean {
  return value === null || ["number", "boolean"].includes(typeof value);
}

/** Formats values as `key=value`, without empty values. */
export function formatFields(fields: LogFields): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([key, value]) => `${key}=${formatValue(String(value))}`)
    .join(" ");
}

/** Quotes a value that contains blanks, quotes or control characters. */
function formatValue(value: string): string {
  return /^[^\s\p{Cc}"=]+$/u.test(value) ? value : JSON.stringify(value);
}
