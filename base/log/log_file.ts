/**
 * The log of all plugins of a node, because runtimes drop a plugin's stderr unless
 * the plugin fails.
 *
 * `CNI_LOG_FILE`, or `logFile` in `/etc/cni/log.json`, names a file; `journal`
 * selects systemd's journal, `stderr` no log. Only calls that log something read
 * these settings. The file is renamed to `<path>.1` before it would exceed 1 MiB, so
 * the log takes at most 2 MiB.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import type { Environment } from "../process/environment.ts";
import { CniError, ErrorCode } from "../error.ts";
import { FileLock } from "../files/lock.ts";
import {
  ifPossible,
  readFile,
  unlessMissing,
  withIoFailure,
  writeAll,
} from "../files/io.ts";
import { isObject, type JsonObject, parseJson } from "../json/json.ts";
import {
  formatRecord,
  type LogFields,
  type LogLevel,
  type LogRecord,
} from "./log.ts";

/** The settings of a node. */
const SETTINGS_FILE = "/etc/cni/log.json";
/** Longest record and file, in bytes. */
const MAX_RECORD_BYTES = 8 * 1024, MAX_FILE_BYTES = 1024 * 1024;
/** Size of the mark at the end of a shortened value. */
const ELLIPSIS_BYTES = 3;

/** The log of a node without settings. */
export const DEFAULT_LOG = "/var/log/cni/plugins.log";
/** Select systemd's journal and no log, instead of a path. */
export const JOURNAL = "journal", NO_LOG = "stderr";

/**
 * Appends records to the node's log. Values are shortened if a record would take
 * more than 8 KiB.
 *
 * @param options.usesDefault Whether to use {@linkcode DEFAULT_LOG} if no log is
 *   configured
 * @returns Whether the log contains the records
 * @throws {CniError} Like {@linkcode findLogPath} and {@linkcode appendToLog}, but
 * not if only the default log cannot be written
 */
export async function keepLog(
  records: readonly LogRecord[],
  env: Environment,
  { usesDefault = false }: { usesDefault?: boolean | undefined } = {},
): Promise<boolean> {
  const path = findLogPath(env);
  if (path === undefined && !usesDefault) return true;
  if (path === NO_LOG) return false;
  const { openRegularFile } = await import("../../ffi/file/regular_file.ts");
  const append = (file: string): void => {
    const lines = records.map((record) => formatLine(record, env));
    appendToLog(file, lines, openRegularFile);
  };
  if (path === undefined) {
    return ifPossible(() => append(DEFAULT_LOG) ?? true) ?? false;
  }
  if (path === JOURNAL) {
    const { sendToJournal } = await import("../../ffi/socket/journal.ts");
    sendToJournal(records.map((record) => toJournalFields(record, env)));
  } else {
    append(path);
  }
  return true;
}

/** Syslog's numbers of the levels. Source: syslog(3). */
const PRIORITIES: Readonly<Record<LogLevel, number>> = {
  debug: 7,
  info: 6,
  warn: 4,
  error: 3,
};

function toJournalFields(
  record: LogRecord,
  env: Environment,
): Record<string, string> {
  const { plugin, command, containerId, ifName, network } = record;
  const own = { plugin, command, containerId, ifName, network };
  return {
    MESSAGE: formatLine({ ...record, time: undefined }, env).trimEnd(),
    PRIORITY: String(PRIORITIES[record.level]),
    SYSLOG_IDENTIFIER: "cni",
    ...Object.fromEntries(
      Object.entries(own).filter(([, value]) => value !== undefined)
        .map(([key, value]) => [`CNI_${key.toUpperCase()}`, String(value)]),
    ),
  };
}

/** Formats a record. Shortens its longest values until the line fits. */
function formatLine(record: LogFields, env: Environment): string {
  const line = formatRecord(record, env);
  const excess = countBytes(line) - MAX_RECORD_BYTES;
  if (excess <= 0) return line;
  const [key, value] = Object.entries(record)
    .map(([name, field]) => [name, String(field)] as const)
    .reduce((longest, one) =>
      one[1].length > longest[1].length ? one : longest
    );
  // Characters take one to six bytes.
  const bytesEach = countBytes(JSON.stringify(value)) / value.length;
  const removed = Math.ceil(Math.min(
    (excess + ELLIPSIS_BYTES) / bytesEach,
    // Afterwards, a different value might be the longest.
    value.length / 2,
  ));
  const kept = value.slice(0, -removed - 1);
  return formatLine({ ...record, [key]: kept && `${kept}…` }, env);
}

function countBytes(text: string): number {
  return new TextEncoder().encode(text).length;
}

/**
 * Returns the configured log, if any: a path, {@linkcode JOURNAL} or {@linkcode
 * NO_LOG}.
 *
 * @throws {CniError} 5 if the settings cannot be read, 6 if they are not JSON, 7 if
 * they do not contain an absolute path
 */
export function findLogPath(
  env: Environment,
  settings: string = SETTINGS_FILE,
): string | undefined {
  const path = env["CNI_LOG_FILE"] || readSettings(settings);
  if (path === undefined || path === JOURNAL || path === NO_LOG) return path;
  if (path.startsWith("/")) return path;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot log to ${JSON.stringify(path)}: it is not an absolute path`,
  );
}

function readSettings(settings: string): string | undefined {
  const bytes = withIoFailure(
    `read "${settings}"`,
    () => unlessMissing(() => readFile(settings)),
  );
  if (bytes === undefined) return undefined;
  const document = parseJson(bytes, `"${settings}"`);
  if (isObject(document)) {
    const { logFile } = document as JsonObject;
    if (typeof logFile === "string") return logFile;
    // As in all configurations, null means absent.
    if (logFile === undefined || logFile === null) return undefined;
  }
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot decode "${settings}": logFile: expected a string`,
  );
}

/**
 * Appends records to a log file, each with a single write, so that records of several
 * processes do not mix. Missing directories are created.
 *
 * @param records With line ends
 * @param open Must not follow links
 * @throws {CniError} 5 if the file cannot be written, or the path is a symbolic
 *   link
 */
export function appendToLog(
  path: string,
  records: readonly string[],
  open: OpenFile,
): void {
  withIoFailure(`write the log file "${path}"`, () => {
    for (const record of records) {
      appendRecord(path, new TextEncoder().encode(record), open);
    }
  });
}

/** Opens a file to append to it, and creates a missing file. */
type OpenFile = (path: string) => Deno.FsFile;

function appendRecord(path: string, bytes: Uint8Array, open: OpenFile): void {
  {
    using file = openLog(path, open);
    if (!isFull(file.statSync(), bytes)) return writeAll(file, bytes);
  }
  rotate(path, bytes);
  using file = openLog(path, open);
  writeAll(file, bytes);
}

function openLog(path: string, open: OpenFile): Deno.FsFile {
  const file = unlessMissing(() => open(path));
  if (file !== undefined) return file;
  Deno.mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  return open(path);
}

function isFull({ size }: Deno.FileInfo, { length }: Uint8Array): boolean {
  return size + length > MAX_FILE_BYTES;
}

/** Renames a full file, unless a different process renames it. */
function rotate(path: string, bytes: Uint8Array): void {
  using lock = unlessMissing(() =>
    FileLock.tryAcquire(path, { create: false })
  );
  if (lock === undefined) return;
  // A different process might have renamed it in between.
  const info = unlessMissing(() => Deno.statSync(path));
  if (info && isFull(info, bytes)) Deno.renameSync(path, `${path}.1`);
}
