/**
 * Sends several requests with a single send(2).
 *
 * @module
 */

import { isErrno, type SyscallError } from "../errno.ts";
import type { Connection } from "./connection.ts";
import { decodeError } from "./error.ts";
import { ControlType, Flag, type RawMessage } from "./message.ts";
import {
  acknowledgeLast,
  type EncodedRequest,
  refusalOf,
  throwIfRefused,
} from "./request.ts";

/**
 * How many requests are acknowledged together: the answers must fit into the buffer.
 */
const MOST_AT_ONCE = 100;

/**
 * Sends requests. The kernel carries out each request, even if it refuses an earlier
 * request.
 *
 * @returns The kernel's refusals, in the order of the requests
 */
export function sendEach(
  connection: Connection,
  requests: readonly EncodedRequest[],
): (SyscallError | undefined)[] {
  const refusals: (SyscallError | undefined)[] = [];
  for (let start = 0; start < requests.length; start += MOST_AT_ONCE) {
    const group = requests.slice(start, start + MOST_AT_ONCE);
    refusals.push(...sendGroup(connection, group));
  }
  return refusals;
}

function sendGroup(
  connection: Connection,
  requests: readonly EncodedRequest[],
): (SyscallError | undefined)[] {
  const { first, begin } = connection.send(requests.map(acknowledgeLast));
  const refusals = requests.map((): SyscallError | undefined => undefined);
  for (;;) {
    for (const reply of connection.receive(begin)) {
      const position = reply.sequence - first;
      const request = requests[position];
      if (request === undefined || reply.type !== ControlType.Error) continue;
      refusals[position] = refusalOf(request, decodeError(reply));
      if (position === requests.length - 1) return refusals;
    }
  }
}

/**
 * Sends requests; the kernel carries out all or none. Waits for the acknowledgement
 * of the last request that asks for an acknowledgement, or for the first refusal.
 *
 * @returns The kernel's echoes of the requests
 * @throws {NetlinkError} If the requests cannot be sent or the kernel refuses a
 * request
 */
export function sendAll(
  connection: Connection,
  requests: readonly EncodedRequest[],
): RawMessage[] {
  const last = requests.findLastIndex(({ flags }) => flags & Flag.Ack);
  const { first, begin } = connection.send(requests);
  const echoes: RawMessage[] = [];
  for (;;) {
    for (const reply of receiveFirst(connection, begin)) {
      const position = reply.sequence - first;
      const request = requests[position];
      if (request === undefined) continue;
      if (reply.type !== ControlType.Error) {
        echoes.push(reply);
        continue;
      }
      const verdict = decodeError(reply);
      if (verdict.errno !== 0) connection.dropAnswers();
      throwIfRefused(request, verdict);
      if (position === last) return echoes;
    }
  }
}

/**
 * Receives messages even if later messages were lost. The buffer holds about 300
 * refusals.
 */
function receiveFirst(
  connection: Connection,
  begin: EncodedRequest,
): RawMessage[] {
  try {
    return connection.receive(begin);
  } catch (error) {
    if (!isErrno(error, "ENOBUFS")) throw error;
    return connection.receive(begin);
  }
}
