/**
 * `multus-shim`: makes the daemon run a call of multus, either this project's daemon
 * or the Go daemon.
 *
 * Source: multus-cni pkg/server/api/shim.go.
 *
 * @module
 */

import { readCmdArgs } from "../../../cni/call/args.ts";
import type { Environment } from "../../../base/process/environment.ts";
import {
  configKeysOf,
  findDirectory,
  httpSocketIn,
  SHIM,
  SHIM_DIRECTORY,
} from "../../../daemon/wire/daemon_socket.ts";
import { CniError, ErrorCode, formatFailure } from "../../../base/error.ts";
import {
  decodeConfigVersion,
  isCommand,
  readRequest,
} from "../../../cni/call/request.ts";
import { isSpecVersion } from "../../../cni/version.ts";
import {
  exchange,
  type NoResponse,
  type PrintedAnswer,
  sendCall,
  STATE_MS,
  toAnswer,
  versionOfErrors,
} from "./client.ts";

/** Time between two checks whether the daemon is ready, in ms. */
const POLL_MS = 100;
/** How long to wait for the daemon, in ms. */
const READY_TIMEOUT_MS = 60_000;

/** The input of the shim. */
export interface ShimCall {
  readonly env: Environment;
  /** Reads the whole configuration. */
  readonly stdin: () => Uint8Array;
  /** How long to wait for the daemon, in ms; 60 000 by default. */
  readonly timeoutMs?: number;
}

/** A valid call. */
export interface ReadCall {
  readonly env: Environment;
  readonly stdin: Uint8Array;
  readonly cniVersion: string;
  readonly command: string;
  readonly socket: string;
}

/**
 * Makes the daemon run a call. Waits until the daemon is ready, except for DEL.
 *
 * @returns Undefined if this process must run the call as multus: a DEL that the
 * daemon did not run, or a call that fails before it changes anything
 */
export async function shim(
  { env, stdin, timeoutMs = READY_TIMEOUT_MS }: ShimCall,
): Promise<PrintedAnswer | undefined> {
  const call = readShimCall(env, stdin);
  if (call === undefined) return undefined;
  const { command, socket } = call;
  if (command === "DEL") return await detach(call);
  if (!waitUntilReady(socket, timeoutMs)) {
    return fail(call, notReady(call, timeoutMs));
  }
  const response = sendCall(socket, call);
  if (typeof response === "string") return fail(call, noAnswer(call, response));
  return await toAnswer(call, response);
}

/**
 * Runs DEL without the daemon, because it needs only files on disk. The Go version
 * reports success instead, and the objects of ADD remain.
 */
async function detach(call: ReadCall): Promise<PrintedAnswer | undefined> {
  const health = exchange(call.socket, "/healthz", "null", STATE_MS);
  if (typeof health === "string" || health.status !== 200) return undefined;
  const response = sendCall(call.socket, call);
  const isDone = typeof response !== "string" && response.status === 200;
  return isDone ? await toAnswer(call, response) : undefined;
}

/** @returns Undefined for a call that is invalid, or is not for a daemon */
export function readShimCall(
  env: Environment,
  stdin: () => Uint8Array,
): ReadCall | undefined {
  const command = env["CNI_COMMAND"] ?? "";
  if (!isCommand(command)) return undefined;
  try {
    readCmdArgs(command, env);
    const { bytes, document } = readRequest(stdin);
    const cniVersion = decodeConfigVersion(document);
    if (!isSpecVersion(cniVersion)) return undefined;
    const directory = findDirectory(SHIM, configKeysOf(document));
    const socket = httpSocketIn(directory ?? SHIM_DIRECTORY);
    return { env, stdin: bytes, cniVersion, command, socket };
  } catch {
    return undefined;
  }
}

/** Waits until the daemon is ready; reports whether it is within the time limit. */
function waitUntilReady(socket: string, timeoutMs: number): boolean {
  const endMs = performance.now() + timeoutMs;
  for (;;) {
    const response = exchange(socket, "/readyz", "null", STATE_MS);
    if (typeof response !== "string" && response.status === 200) return true;
    if (performance.now() + POLL_MS > endMs) return false;
    sleep(POLL_MS);
  }
}

function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function fail({ cniVersion }: ReadCall, error: CniError): PrintedAnswer {
  return formatFailure(error, versionOfErrors(cniVersion));
}

function notReady(
  { command, socket }: ReadCall,
  timeoutMs: number,
): CniError {
  return new CniError(
    command === "STATUS"
      ? ErrorCode.PluginNotAvailable
      : ErrorCode.TryAgainLater,
    `The multus daemon at "${socket}" was not ready within ${timeoutMs} ms`,
  );
}

function noAnswer({ command, socket }: ReadCall, why: NoResponse): CniError {
  const isLost = why === "lost" && command === "ADD";
  return new CniError(
    ErrorCode.TryAgainLater,
    `The multus daemon at "${socket}" went away before it answered`,
    { details: isLost ? "parts of the attachment may exist until DEL" : "" },
  );
}
