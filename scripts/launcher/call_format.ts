/**
 * Writes `launcher/call_format.h`: what `launcher/call.c` shares with the node daemon
 * and with the engine, from the tables that these are made of.
 *
 * @module
 */

import { CniError, ErrorCode, formatFailure } from "../../base/error.ts";
import {
  COMMAND,
  listNeeded,
  NEEDED_VARIABLES,
  TRACE,
} from "../../cni/call/variables.ts";
import { CURRENT_VERSION } from "../../cni/version.ts";
import {
  END,
  HEADER_BYTES,
  lengthAt,
  LOST,
  LOST_DETAILS,
  MAGIC,
  MAX_MESSAGE,
  MessageKind,
  MOST_RENEWALS,
  REQUEST_PARTS,
  SENT_VARIABLES,
  SHORT_TAKE_MS,
  SILENCE_MS,
  TAKE_MS,
  TICK_MS,
} from "../../daemon/wire/call_format.ts";
import { TIMEOUT_PERIOD_MS } from "../../daemon/wire/daemon_timeouts.ts";
import {
  DEFAULT_SOCKET,
  DIRECTORY_PROGRAMS,
  NO_DAEMON,
  OFF_SUFFIX,
  SOCKET_NAME,
  SocketKey,
  TIMEOUTS_SUFFIX,
} from "../../daemon/wire/daemon_socket.ts";
import { LOCAL_FLAG, StdinName } from "../../daemon/wire/stdin_name.ts";

/** Names in C of the variables that decide who runs a call, and their names. */
const VARIABLES: readonly (readonly [string, string])[] = [
  ["COMMAND", COMMAND],
  ...NEEDED_VARIABLES.map(({ name }) => [name, name] as const),
  ["NO_DAEMON", NO_DAEMON],
  ["TRACE", TRACE],
];

/** Returns the text of the file. */
export function formatCallFormat(): string {
  return [
    "/*",
    " * What call.c shares with the node daemon and with the engine. Written by",
    " * `deno task launcher` from the tables in daemon/wire and cni/call.",
    " *",
    " * Tables have no pointers: the code may run at any address.",
    " */",
    "#ifndef LAUNCHER_CALL_FORMAT_H",
    "#define LAUNCHER_CALL_FORMAT_H",
    "",
    ...variables(),
    ...request(),
    ...messages(),
    ...sockets(),
    ...stdinNames(),
    ...failures(),
    "#endif",
    "",
  ].join("\n");
}

function variables(): string[] {
  const names = VARIABLES.map(([, name]) => `${name}=`);
  const commands = [...new Set(NEEDED_VARIABLES.flatMap(({ by }) => by))];
  const mask = (command: string): string =>
    listNeeded(command).map((name) => `1u << ${name}`).join(" | ");
  return [
    "/* Variables that decide who runs a call. */",
    `enum { ${VARIABLES.map(([id]) => id).join(", ")}, VARIABLE_COUNT };`,
    ...textList("VARIABLE_NAMES", names),
    "/* Commands that a daemon may run, and the variables that they need. */",
    "static const struct {",
    "  char name[8];",
    "  unsigned needs;",
    "} COMMANDS[] = {",
    ...commands.map((command) => `    {${quote(command)}, ${mask(command)}},`),
    "};",
    `enum { COMMAND_COUNT = ${commands.length} };`,
    "",
  ];
}

function request(): string[] {
  // A name ends in what must follow: "=", or anything.
  const sent = SENT_VARIABLES.map((name) =>
    name.endsWith("*") ? name.slice(0, -1) : `${name}=`
  );
  return [
    "/* A request: the header, the parts, and the end. */",
    `#define MAGIC ${quote(MAGIC)}`,
    `#define END ${quote(END)}`,
    `enum { HEADER_BYTES = ${HEADER_BYTES} };`,
    "/* For each part, where the header has its length, and its source. */",
    "#define FOR_EACH_PART(PART) \\",
    ...REQUEST_PARTS.map(({ name, from }, index) => {
      const isLast = index === REQUEST_PARTS.length - 1;
      return `  PART(${lengthAt(name)}, ${from})${isLast ? "" : " \\"}`;
    }),
    `enum { STDIN_LENGTH_AT = ${lengthAt("stdin")} };`,
    "/* How the variables begin that are sent. */",
    ...textList("SENT_VARIABLES", sent),
    "",
  ];
}

function messages(): string[] {
  const kinds = Object.entries(MessageKind)
    .map(([name, kind]) => `${constantOf(name)} = ${kind}`);
  const last = Math.max(...Object.values(MessageKind));
  return [
    "/* Messages of the daemon, and time limits. */",
    `enum { ${kinds.join(", ")}, LAST_KIND = ${last} };`,
    `enum { MAX_MESSAGE = ${MAX_MESSAGE} };`,
    "enum {",
    `  TAKE_MS = ${TAKE_MS},`,
    `  SHORT_TAKE_MS = ${SHORT_TAKE_MS},`,
    `  SILENCE_MS = ${SILENCE_MS},`,
    `  TICK_MS = ${TICK_MS},`,
    `  TIMEOUT_PERIOD_MS = ${TIMEOUT_PERIOD_MS},`,
    "};",
    `enum { MOST_RENEWALS = ${MOST_RENEWALS} };`,
    "",
  ];
}

function sockets(): string[] {
  const programs = Object.entries(DIRECTORY_PROGRAMS);
  const usual = (directory: string | undefined): string =>
    directory === undefined ? DEFAULT_SOCKET : `${directory}/${SOCKET_NAME}`;
  return [
    "/* Keys of the configuration, and where the daemon listens. */",
    "enum { KEY_SOCKET, KEY_DIRECTORY, KEY_COUNT };",
    ...textList("KEYS", [SocketKey.socket, SocketKey.directory]),
    `#define DEFAULT_SOCKET ${quote(DEFAULT_SOCKET)}`,
    `#define SOCKET_SUFFIX ${quote(`/${SOCKET_NAME}`)}`,
    `#define OFF_SUFFIX ${quote(OFF_SUFFIX)}`,
    `#define TIMEOUTS_SUFFIX ${quote(TIMEOUTS_SUFFIX)}`,
    "/* Programs that have KEY_DIRECTORY, and the socket that they ask without it. */",
    "static const struct {",
    "  char name[16];",
    "  char socket[48];",
    "} DIRECTORY_PROGRAMS[] = {",
    ...programs.map(([name, directory]) =>
      `    {${quote(name)}, ${quote(usual(directory))}},`
    ),
    "};",
    `enum { DIRECTORY_PROGRAM_COUNT = ${programs.length} };`,
    "",
  ];
}

function stdinNames(): string[] {
  const names = Object.entries(StdinName);
  return [
    "/* What the engine is told, as the name of the file that stdin is. */",
    `enum stdin_name { ${
      names.map(([name]) => `STDIN_${constantOf(name)}`).join(", ")
    } };`,
    "static const char STDIN_NAMES[][16] = {",
    ...names.map(([, name]) => `    ${quote(name)},`),
    "};",
    `enum { LOCAL_FLAG = ${LOCAL_FLAG} };`,
    "",
  ];
}

function failures(): string[] {
  const cannotPutBack = format(
    new CniError(
      ErrorCode.IoFailure,
      "Cannot keep the configuration: memfd_create(2), pipe2(2) or write(2) failed",
    ),
  );
  // Stands for the socket's path, which has nothing to escape.
  const path = "PATH";
  const [before = "", behind = ""] = format(
    new CniError(ErrorCode.TryAgainLater, LOST.join(path), {
      details: LOST_DETAILS,
    }),
  ).split(path);
  return [
    "/* What is printed if stdin cannot be put back; and if an ADD was lost and the",
    " * engine cannot be told, around the socket's path. */",
    `#define CANNOT_PUT_BACK ${quote(`${cannotPutBack}\n`)}`,
    `#define LOST_BEFORE_PATH ${quote(before)}`,
    `#define LOST_BEHIND_PATH ${quote(behind)}`,
    "",
  ];
}

function format(error: CniError): string {
  return formatFailure(error, CURRENT_VERSION).stdout;
}

/** A list of texts as one: each with a NUL at its end, and the list with one more. */
function textList(name: string, texts: readonly string[]): string[] {
  const lines = texts.map((text) => `    ${quote(`${text}\0`)}`);
  return [`static const char ${name}[] =`, `${lines.join("\n")};`];
}

/** Returns the name in C: `notAsked` is NOT_ASKED. */
function constantOf(name: string): string {
  return name.replace(/[A-Z]/g, "_$&").toUpperCase();
}

/** Quotes an ASCII text for C. */
function quote(text: string): string {
  return JSON.stringify(text).replaceAll("\\u0000", "\\0");
}
