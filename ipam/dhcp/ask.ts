/**
 * The plugin's side of the daemon's socket: a line of JSON in each direction.
 *
 * @module
 */

import { JoinedSignal, waitUntil } from "../../base/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { checkChange } from "../../ffi/change_check.ts";
import { isObject } from "../../base/json/json.ts";
import type { Attachment, AttachmentId } from "../../cni/config/types.ts";
import type { Lease, LeaseRequest } from "./lease.ts";
import type { FamilyKey } from "./lease_directory.ts";

/** Where a daemon listens unless configured. */
export const DEFAULT_DHCP_SOCKET = "/run/cni/dhcp.sock";

/** A request. */
export type DaemonRequest =
  | {
    readonly command: "ADD";
    readonly request: LeaseRequest;
    /** Leased addresses that other hosts have; none if absent. */
    readonly declined?: readonly string[];
  }
  | { readonly command: "CHECK"; readonly key: FamilyKey }
  | {
    readonly command: "DEL";
    readonly key: Attachment;
    /** See ADD. */
    readonly declined?: readonly string[];
  }
  | {
    readonly command: "GC";
    readonly network: string;
    readonly valid: readonly AttachmentId[];
  }
  | { readonly command: "STATUS" };

/** The answer: the lease, which CHECK might not find. */
export type DaemonAnswer =
  | { readonly lease?: Lease | undefined }
  | { readonly error: { code: number; msg: string; details?: string } };

/**
 * Longest wait for an answer, in ms: a program that never answers must not hold
 * the runtime. In ADD the daemon waits for a server (`-resendtimeout`); other
 * requests do not wait.
 */
const ADD_LIMIT_MS = 600_000, LIMIT_MS = 60_000;

/** Longer than any answer, in UTF-16 code units. */
const MAX_ANSWER = 1 << 20;

/** No daemon that understands the plugin listens at the socket. */
export class NoDaemonError extends CniError {}

/**
 * Asks the daemon.
 *
 * @throws {NoDaemonError} 11 if no daemon runs, or a different daemon such as the Go plugin's
 * @throws {CniError} The daemon's error; 11 if the daemon disconnects
 */
export async function ask(
  socket: string,
  request: DaemonRequest,
  signal: AbortSignal = new AbortController().signal,
  limitMs: number = request.command === "ADD" ? ADD_LIMIT_MS : LIMIT_MS,
): Promise<Lease | undefined> {
  using limit = new JoinedSignal(limitMs, signal);
  using connection = await connect(socket);
  const line = new TextEncoder().encode(`${JSON.stringify(request)}\n`);
  checkChange();
  const exchange = (async (): Promise<string> => {
    for (let rest = line; rest.length > 0;) {
      rest = rest.subarray(await connection.write(rest));
    }
    return await readLine(connection);
  })().catch(() => "");
  const text = await waitUntil(exchange, limit.signal);
  if (text?.startsWith("HTTP/")) {
    throw new NoDaemonError(
      ErrorCode.TryAgainLater,
      `The daemon at "${socket}" belongs to the Go plugin, and uses a different protocol`,
      { details: "stop it, and start this plugin's: dhcp daemon" },
    );
  }
  if (!text) {
    throw new CniError(
      ErrorCode.TryAgainLater,
      limit.signal.aborted
        ? `The DHCP daemon at "${socket}" did not answer in time`
        : `The DHCP daemon at "${socket}" went away before it answered`,
    );
  }
  const answer = decodeAnswer(text, socket);
  if (!("error" in answer)) return answer.lease;
  const { code, msg, details = "" } = answer.error;
  throw new CniError(code, msg, { details });
}

function decodeAnswer(text: string, socket: string): DaemonAnswer {
  try {
    const answer = JSON.parse(text);
    if (isAnswer(answer)) return answer;
  } catch {
    // The error is the same as for a malformed answer.
  }
  throw new NoDaemonError(
    ErrorCode.TryAgainLater,
    `The program at "${socket}" is not a DHCP daemon`,
    { details: `it answered ${JSON.stringify(text.slice(0, 100))}` },
  );
}

function isAnswer(value: unknown): value is DaemonAnswer {
  if (!isObject(value)) return false;
  const { lease, error } = value;
  if (isObject(lease)) return typeof lease["address"] === "string";
  if (!isObject(error)) return Object.keys(value).length === 0;
  return typeof error["code"] === "number" && typeof error["msg"] === "string";
}

async function connect(socket: string): Promise<Deno.UnixConn> {
  try {
    return await Deno.connect({ transport: "unix", path: socket });
  } catch (error) {
    const start = socket === DEFAULT_DHCP_SOCKET
      ? ""
      : ` -socketpath ${socket}`;
    throw new NoDaemonError(
      ErrorCode.TryAgainLater,
      `No DHCP daemon listens at "${socket}"`,
      { details: `${describeError(error)}; start one: dhcp daemon${start}` },
    );
  }
}

async function readLine(connection: Deno.UnixConn): Promise<string> {
  const [decoder, buffer] = [new TextDecoder(), new Uint8Array(16 * 1024)];
  let text = "";
  while (!text.includes("\n") && text.length < MAX_ANSWER) {
    const length = await connection.read(buffer);
    if (length === null) break;
    text += decoder.decode(buffer.subarray(0, length), { stream: true });
  }
  return text;
}
