/**
 * Reachability, by ping and by a question to a name server.
 *
 * @module
 */

import { isErrno, SyscallError } from "../../../ffi/errno.ts";
import { waitReadable } from "../../../ffi/libc.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { UdpSocket } from "../../../ffi/socket/udp_socket.ts";
import { type Bytes, viewOf } from "../../../net/bytes.ts";
import type { Ip } from "../../../net/ip.ts";
import { sendPing } from "../way/neighbor.ts";
import type { Patience } from "../node.ts";

/** Those who are reached. */
export type Party = "A" | "B" | "node" | "gateway" | "outside" | "name";

/** One attempt. */
export interface Attempt {
  readonly from: Party;
  readonly netns: NetNs;
  readonly to: Party;
  readonly address: Ip;
  /** The sender's address; the kernel chooses one if undefined. */
  readonly source?: Ip | undefined;
}

/** Its outcome. */
export interface Reach {
  readonly from: Party;
  readonly to: Party;
  readonly address: string;
  readonly reached: boolean;
  readonly milliseconds: number;
  /** Why it failed; null without an answer. */
  readonly error: string | null;
}

/** Makes an attempt. */
export async function reach(
  { from, netns, to, address, source }: Attempt,
  { attempts, timeoutMs }: Patience,
  signal: AbortSignal,
): Promise<Reach> {
  const start = performance.now();
  let reached = false;
  let error: string | null = null;
  try {
    for (let at = 0; at < attempts && !reached; at++) {
      signal.throwIfAborted();
      reached = to === "name"
        ? await askName(netns, address, timeoutMs)
        : await sendPing(
          { netns },
          { destination: address, source },
          timeoutMs,
        );
    }
  } catch (thrown) {
    if (!(thrown instanceof SyscallError)) throw thrown;
    error = explain(thrown);
  }
  const milliseconds = Math.round((performance.now() - start) * 10) / 10;
  return { from, to, address: `${address}`, reached, milliseconds, error };
}

function explain(error: SyscallError): string {
  if (isErrno(error, "ENETUNREACH", "EHOSTUNREACH")) return "no route";
  if (isErrno(error, "EPERM")) return "refused by rules of the sender";
  if (isErrno(error, "ECONNREFUSED")) return "nothing listens on port 53";
  if (isErrno(error, "EADDRNOTAVAIL")) return "the sender lacks its address";
  return error.message;
}

const DNS_PORT = 53;
/** Where the flags of a message are, and the bit of answers. Source: RFC 1035. */
const FLAGS_AT = 2, IS_ANSWER = 0x8000;

/** Asks a name server for the servers of the root, which every resolver knows. */
async function askName(
  netns: NetNs,
  server: Ip,
  timeoutMs: number,
): Promise<boolean> {
  using socket = new UdpSocket(netns, server, DNS_PORT);
  const question = encodeQuestion();
  socket.send(question);
  const end = performance.now() + timeoutMs;
  for (let left = timeoutMs; left > 0; left = end - performance.now()) {
    await waitReadable(socket.fd, Math.ceil(left));
    const answer = socket.receive();
    if (answer !== undefined && isAnswer(answer, question)) return true;
  }
  return false;
}

/** A question for `. IN NS`, with recursion. Source: RFC 1035, section 4.1. */
function encodeQuestion(): Bytes {
  const id = crypto.getRandomValues(new Uint8Array(2));
  const rest = [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
  return new Uint8Array([...id, ...rest]);
}

function isAnswer(answer: Bytes, question: Bytes): boolean {
  return answer.length >= FLAGS_AT + 2 && answer[0] === question[0] &&
    answer[1] === question[1] &&
    (viewOf(answer).getUint16(FLAGS_AT) & IS_ANSWER) !== 0;
}
