/**
 * The caller's side of the node daemon: a process that hands a whole call to
 * the daemon, and prints the answer. It loads neither a schema nor a plugin.
 *
 * @module
 */

import { buildIdentity } from "../../base/process/build_identity.ts";
import { CniError, ErrorCode, formatFailure } from "../../base/error.ts";
import {
  encodeRequest,
  LOST,
  LOST_DETAILS,
  MAX_MESSAGE,
  MessageAt,
  MessageKind,
  MOST_RENEWALS,
  readMessageHead,
  SENT_VARIABLES,
  SHORT_TAKE_MS,
  SILENCE_MS,
  TAKE_MS,
} from "../wire/call_format.ts";
import {
  type ConfigKeys,
  httpSocketIn,
  listSockets,
  offFile,
  readKeys,
  socketValueOf,
  timeoutsFile,
} from "../wire/daemon_socket.ts";
import { ifPossible } from "../../base/files/io.ts";
import { readProcessStat } from "../../base/process/process_stat.ts";
import { readStdinName, StdinName } from "../wire/stdin_name.ts";
import { writeStderr } from "../../base/process/stdio.ts";
import { CURRENT_VERSION, isSpecVersion } from "../../cni/version.ts";
import { fileExists, UnixStream } from "../../ffi/socket/unix_stream.ts";

/** The call of this process. */
export interface ReceivedCall {
  /** The plugin's type. */
  readonly name: string;
  /** The environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The configuration, byte for byte. */
  readonly stdin: Uint8Array;
}

/** The outcome of a call: what to print, and the exit code. */
export interface CallAnswer {
  /** One JSON document, or nothing. */
  readonly stdout: string;
  /** 0 for success. */
  readonly exitCode: number;
}

/**
 * Has a third-party daemon run a call.
 *
 * @param socket Path of its socket
 * @param cniVersion The configuration's, unchecked; "" if it has none
 * @returns Undefined if this process must run the call locally, "lost" if the outcome
 *   is unknown
 */
export type AskThirdParty = (
  socket: string,
  call: ReceivedCall,
  cniVersion: string,
) => Promise<CallAnswer | "lost" | undefined>;

/**
 * Has a node daemon run a call, if a daemon listens. Log text is written to stderr
 * immediately.
 *
 * @param ask Asks a third-party daemon if there is no node daemon
 * @returns Undefined if this process must run the call locally
 */
export async function handOver(
  call: ReceivedCall,
  ask?: AskThirdParty,
): Promise<CallAnswer | undefined> {
  const config = readKeys(call.stdin);
  const sockets = listSockets(call.name, config);
  const stdinName = readStdinName();
  const [first = ""] = sockets;
  switch (stdinName) {
    case StdinName.timeout:
      return await onLate(first, TAKE_MS);
    case StdinName.shortTimeout:
      return await onLate(first, SHORT_TAKE_MS);
    case StdinName.lost:
      return onLost(call, first, config);
    case StdinName.silent:
      return await onSilent(call, first, config);
  }
  const skipped = stdinName === StdinName.noDaemon ? 1 : 0;
  for (const path of sockets.slice(skipped)) {
    using stream = await connect(path, call, config);
    if (stream === undefined) continue;
    const takeMs = await findTakeMs(path);
    stream.setLimit(takeMs);
    const offered = offer(stream, encodeCall(call));
    if (offered === "late") return await onLate(path, takeMs);
    if (offered === "declined") return undefined;
    if (offered === "silent") return await onSilent(call, path, config);
    const answer = receive(stream);
    if (answer !== "lost") return answer;
    return stream.isExpired
      ? await onSilent(call, path, config)
      : onLost(call, path, config);
  }
  return ask && await askThirdParty(call, config, ask);
}

/** Connects to a daemon that has not been turned off. */
async function connect(
  path: string,
  { env }: ReceivedCall,
  config: ConfigKeys,
): Promise<UnixStream | undefined> {
  if (fileExists(offFile(path))) {
    await recordForDaemon(path, env, config);
    // The daemon may have read the records of other callers, and removed the file.
    if (fileExists(offFile(path))) return undefined;
  }
  return UnixStream.connect(path);
}

/** Records this call for a daemon that is turned off. */
async function recordForDaemon(
  path: string,
  env: ReceivedCall["env"],
  config: ConfigKeys,
): Promise<void> {
  const { CNI_COMMAND: command = "" } = env;
  if (!["ADD", "DEL"].includes(command)) return;
  const { CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifName = "" } = env;
  const network = String(config.get("name") ?? "");
  const { recordLocalCall } = await import("../wire/daemon_timeouts.ts");
  await recordLocalCall(path, { command, containerId, ifName, network });
}

/** Returns how long to wait for `taken`, in ms: less soon after a timeout of another call. */
async function findTakeMs(path: string): Promise<number> {
  if (!fileExists(timeoutsFile(path))) return TAKE_MS;
  const { hasRecentTimeout } = await import("../wire/daemon_timeouts.ts");
  return hasRecentTimeout(path) ? SHORT_TAKE_MS : TAKE_MS;
}

/** Records that the daemon did not take the call in time, and no longer can. */
async function onLate(path: string, waitedMs: number): Promise<undefined> {
  const { recordTimeout } = await import("../wire/daemon_timeouts.ts");
  await recordTimeout(path, waitedMs);
}

/** Handles a daemon that took the call and no longer sends messages. */
async function onSilent(
  call: ReceivedCall,
  path: string,
  config: ConfigKeys,
): Promise<CallAnswer | undefined> {
  await onLate(path, TAKE_MS);
  return onLost(call, path, config);
}

/** Fails an ADD that the daemon lost; this process repeats any other command. */
function onLost(
  { env }: ReceivedCall,
  path: string,
  config: ConfigKeys,
): CallAnswer | undefined {
  return env["CNI_COMMAND"] === "ADD" ? reportLost(path, config) : undefined;
}

/** Has a daemon that only speaks HTTP run a call, at the socket in `daemonSocketDir`. */
async function askThirdParty(
  call: ReceivedCall,
  config: ConfigKeys,
  ask: AskThirdParty,
): Promise<CallAnswer | undefined> {
  const directory = socketValueOf(config, "directory");
  if (typeof directory !== "string" || !directory.startsWith("/")) return;
  if (socketValueOf(config, "socket") === "") return; // none
  const socket = httpSocketIn(directory);
  const answer = await ask(
    socket,
    call,
    String(config.get("cniversion") ?? ""),
  );
  return answer === "lost" ? onLost(call, socket, config) : answer;
}

/** Encodes a call. */
function encodeCall(
  { name, env, stdin }: ReceivedCall,
): Uint8Array<ArrayBuffer> {
  const variables = Object.entries(env)
    .filter(([name]) => isSent(name))
    .map(([name, value]) => `${name}=${value}\0`);
  return encodeRequest({
    identity: buildIdentity,
    argv0: name,
    environment: variables.join(""),
    stdin,
  });
}

function isSent(name: string): boolean {
  return SENT_VARIABLES.some((sent) =>
    sent.endsWith("*") ? name.startsWith(sent.slice(0, -1)) : name === sent
  );
}

/**
 * Waits until the daemon takes the call.
 *
 * @returns "late" if the daemon did not take the call in time, and no longer can;
 *   "silent" if it took the call after this process had stopped receiving
 */
function offer(
  stream: UnixStream,
  request: Uint8Array<ArrayBuffer>,
): "taken" | "declined" | "late" | "silent" {
  const message = stream.send(request) ? receiveMessage(stream) : undefined;
  if (message?.kind === MessageKind.taken) return "taken";
  if (!stream.isExpired) return "declined";
  const head = new Uint8Array(MessageAt.bytes);
  if (stream.stopReceiving(head) !== head.length) return "late";
  const { kind } = readMessageHead(head);
  return kind === MessageKind.declined ? "declined" : "silent";
}

/**
 * Receives messages up to the answer.
 *
 * @returns "lost" if the connection ends without an answer; undefined if the daemon declines the call
 */
function receive(stream: UnixStream): CallAnswer | "lost" | undefined {
  for (;;) {
    let renewals = MOST_RENEWALS;
    stream.setLimit(SILENCE_MS, () => {
      const waitsOn = renewals-- > 0 && isInKernel(stream.peerPid);
      return waitsOn ? SILENCE_MS : 0;
    });
    const message = receiveMessage(stream);
    if (message === undefined) return "lost";
    const { kind, text } = message;
    if (kind === MessageKind.declined) return undefined;
    if (kind === MessageKind.success) return { stdout: text, exitCode: 0 };
    if (kind === MessageKind.failure) return { stdout: text, exitCode: 1 };
    if (kind === MessageKind.log) writeStderr(text);
    else if (kind !== MessageKind.alive) return "lost";
  }
}

/** Reports whether a process waits in the kernel (uninterruptible sleep). */
function isInKernel(pid: number): boolean {
  return ifPossible(() => readProcessStat(pid))?.state === "D";
}

/** Receives a message; undefined if the connection ends before. */
function receiveMessage(
  stream: UnixStream,
): { kind: number; text: string } | undefined {
  const head = receiveBytes(stream, MessageAt.bytes);
  if (head === undefined) return undefined;
  const { kind, length } = readMessageHead(head);
  if (length > MAX_MESSAGE) return undefined;
  const bytes = receiveBytes(stream, length);
  if (bytes === undefined) return undefined;
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  return { kind, text };
}

/** Receives a number of bytes; undefined if the connection ends before. */
function receiveBytes(
  stream: UnixStream,
  length: number,
): Uint8Array<ArrayBuffer> | undefined {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length;) {
    const count = stream.receive(bytes.subarray(done));
    if (count === 0) return undefined;
    done += count;
  }
  return bytes;
}

/** Formats the failure of an ADD whose outcome is unknown; the runtime cleans up with DEL. */
function reportLost(path: string, config: ConfigKeys): CallAnswer {
  const version = config.get("cniversion");
  const isKnown = typeof version === "string" && isSpecVersion(version);
  return formatFailure(
    new CniError(
      ErrorCode.TryAgainLater,
      LOST.join(path),
      { details: LOST_DETAILS },
    ),
    isKnown ? version : CURRENT_VERSION,
  );
}
