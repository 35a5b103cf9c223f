/**
 * `cni logs`: shows what plugins logged, from the log file or the journal.
 *
 * @module
 */

import {
  ifPossible,
  readTextFile,
  unlessMissing,
  withIoFailure,
} from "../../base/files/io.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
} from "../../base/json/json.ts";
import { isJsonLog, LOG_LEVELS } from "../../base/log/log.ts";
import {
  DEFAULT_LOG,
  findLogPath,
  JOURNAL,
  NO_LOG,
} from "../../base/log/log_file.ts";
import type { Output } from "../../base/command_line/command.ts";
import { showControls, type Style } from "../../base/command_line/style.ts";
import { type Column, formatTable } from "../../base/command_line/table.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { listNodeAttachments } from "../node/node_attachments.ts";
import { type AttachedTarget, getTarget, shortenId } from "../node/target.ts";
import type { CniCall } from "../flags.ts";
import { readDirectories } from "../node/network.ts";

/** A line of the log, and its values. */
interface Line {
  readonly text: string;
  readonly record: JsonObject;
}

/** Reads the log, oldest lines first. */
export async function logs(call: CniCall): Promise<Output> {
  const [container] = call.args;
  const path = call.flags["log-file"] ?? findLogPath(call.env) ?? DEFAULT_LOG;
  if (path === NO_LOG) {
    throw new Error(
      "Cannot show logs: the plugins log to stderr only; set logFile in " +
        "/etc/cni/log.json, or use --log-file",
    );
  }
  const count = readCount(call);
  const lowest = LOG_LEVELS.findIndex((level) => level === call.flags.level);
  const ids = container === undefined ? undefined : findIds(container, call);
  const lines = await readLines(path, call);
  const where = path === JOURNAL ? "the journal" : path;
  const shown = lines
    .filter(({ record }) => isOfContainer(record, ids))
    .filter(({ record }) => isAtLeast(record, lowest))
    .slice(-count);
  return {
    json: shown.map(({ record }) => record),
    text: call.flags.raw
      ? shown.map(({ text }) => showControls(text)).join("\n")
      : (style) => formatLines(shown, call, style),
    note: shown.length === 0 ? `Nothing is logged in ${where}` : undefined,
  };
}

/** Keys with a column; the text contains all other keys. */
const SHOWN = [
  "time",
  "level",
  "plugin",
  "command",
  "containerId",
  "ifName",
  "network",
  "msg",
];

/** Formats lines for people, with the pods of the cache. */
function formatLines(
  lines: readonly Line[],
  call: CniCall,
  style: Style,
): string {
  if (lines.length === 0) return "";
  const pods = new Map(
    (ifPossible(() => listNodeAttachments(readDirectories(call))) ?? [])
      .map(({ containerId, pod }) => [containerId, pod]),
  );
  const columns: readonly Column<JsonObject>[] = [
    {
      heading: "TIME",
      cell: ({ time }) => wordOf(time).replace(/\.\d+Z$/, "Z"),
    },
    {
      heading: "LEVEL",
      cell: ({ level }) => wordOf(level),
      mark: ({ level }, { red, yellow }) =>
        level === "error" ? red : level === "warn" ? yellow : undefined,
    },
    {
      heading: "PLUGIN",
      cell: ({ plugin, command }) =>
        [plugin, command].map(wordOf).join(" ").trim(),
    },
    {
      heading: "POD",
      cell: ({ containerId }) =>
        pods.get(wordOf(containerId)) ?? shortenId(wordOf(containerId)),
      narrow: "below",
    },
    { heading: "WHAT", cell: describeEvent, narrow: "below" },
  ];
  const { width: _, ...endless } = style;
  return formatTable(
    columns,
    lines.map(({ record }) => record),
    call.flags.wide ? endless : style,
  );
}

function wordOf(value: JsonValue | undefined): string {
  return value === undefined ? "" : String(value);
}

/** Describes what happened, and to what. */
function describeEvent({ msg, ...record }: JsonObject): string {
  const others = Object.entries(record)
    .filter(([key]) => !SHOWN.includes(key))
    .map(([key, value]) =>
      `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`
    );
  return [wordOf(msg), ...others].join(", ");
}

/** Reads the lines of the log. Also `cni report` needs them. */
export async function readLines(
  path: string,
  { env, signal }: Pick<CniCall, "env" | "signal">,
): Promise<Line[]> {
  if (path === JOURNAL) return await readJournal(signal, env);
  return [`${path}.1`, path].flatMap((file) =>
    withIoFailure(
      `read the log file "${file}"`,
      () => unlessMissing(() => readTextFile(file)) ?? "",
    ).split("\n").filter((text) => text !== "")
      .map((text) => ({ text, record: parseRecord(text) }))
  );
}

async function readJournal(
  signal: AbortSignal,
  env: CniCall["env"],
): Promise<Line[]> {
  const args = ["--quiet", "--no-pager", "--identifier=cni", "--output=json"];
  const command = new Deno.Command("journalctl", { args, signal });
  let output: Deno.CommandOutput;
  try {
    output = await command.output();
  } catch (error) {
    throw new Error("Cannot read the journal with journalctl", {
      cause: error,
    });
  }
  const { success, stdout, stderr } = output;
  const decoder = new TextDecoder();
  if (!success) {
    const why = decoder.decode(stderr).trim();
    throw new Error(`Cannot read the journal with journalctl: ${why}`);
  }
  return decoder.decode(stdout).split("\n").filter((text) => text !== "")
    .map((text) => toLine(JSON.parse(text), env));
}

/** Restores the line of a journal's entry, which has the time elsewhere. */
function toLine(entry: JsonObject, env: CniCall["env"]): Line {
  const { MESSAGE, __REALTIME_TIMESTAMP: us } = entry;
  // The journal lists the bytes of a text with control characters.
  const message = Array.isArray(MESSAGE)
    ? new TextDecoder().decode(Uint8Array.from(MESSAGE as number[]))
    : String(MESSAGE);
  const time = new Date(Number(us) / 1000).toISOString();
  const record = { time, ...parseRecord(message) };
  const text = isJsonLog(env) || message.startsWith("{")
    ? JSON.stringify(record)
    : `time=${time} ${message}`;
  return { text, record };
}

/** Parses `key=value` pairs or JSON; any other line is a message. */
function parseRecord(text: string): JsonObject {
  try {
    if (text.startsWith("{")) {
      const record = JSON.parse(text);
      if (isObject(record)) return record as JsonObject;
    }
    const pairs = [...text.matchAll(/(\w+)=("(?:[^"\\]|\\.)*"|\S*)(?= |$)/g)];
    const record = pairs.map(([, key = "", value = ""]) => [
      key,
      value.startsWith('"') ? JSON.parse(value) : value,
    ]);
    if (record.length > 0) return Object.fromEntries(record);
  } catch {
    // A line that was cut, or another program's.
  }
  return { msg: text };
}

function isOfContainer(
  { containerId }: JsonObject,
  ids: readonly string[] | undefined,
): boolean {
  return ids === undefined ||
    typeof containerId === "string" &&
      ids.some((id) => containerId.startsWith(id));
}

/** Lists the container IDs of a name. A deleted container has only its ID. */
function findIds(name: string, call: CniCall): string[] {
  const directories = readDirectories(call);
  if (/[/:]/.test(name)) return listIds(getTarget(name, directories));
  const target = ifPossible(() => getTarget(name, directories));
  return target === undefined ? [name] : [name, ...listIds(target)];
}

function listIds({ attachments }: AttachedTarget): string[] {
  return attachments.map(({ containerId }) => containerId);
}

/** Lines without a level, from other programs, are also shown. */
function isAtLeast({ level }: JsonObject, lowest: number): boolean {
  const index = LOG_LEVELS.findIndex((known) => known === level);
  return index < 0 || index >= lowest;
}

function readCount({ command, flags }: CniCall): number {
  const { tail } = flags;
  if (tail === undefined) return Infinity;
  if (/^[1-9]\d{0,8}$/.test(tail)) return Number(tail);
  throw refuse(command, `--tail must be a number of lines, not "${tail}"`);
}
