/**
 * The caller's side of the node daemon's own protocol, for tests.
 *
 * @module
 */

import {
  HEADER_BYTES,
  MAGIC,
  MESSAGE_HEADER_BYTES,
  MessageKind,
  WORD_BYTES,
} from "../../daemon/protocol/call_format.ts";
import { concat } from "../../net/bytes.ts";
import type { CallRequest, Message } from "../../daemon/protocol/request.ts";

/** Encodes a request. */
export function encodeRequest(
  { build, name, env, stdin }: CallRequest,
): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder();
  const variables = Object.entries(env)
    .map(([name, value]) => `${name}=${value}\0`);
  const parts = [
    ...[build, name, variables.join("")].map((part) => text.encode(part)),
    stdin,
  ];
  const header = new BigUint64Array(HEADER_BYTES / WORD_BYTES);
  header.set(
    parts.map(({ length }) => BigInt(length)),
    MAGIC.length / WORD_BYTES,
  );
  const bytes = new Uint8Array(header.buffer);
  bytes.set(text.encode(MAGIC));
  return concat([bytes, ...parts, text.encode("\n")]);
}

/** Decodes the messages that are complete; returns the rest, too. */
export function decodeMessages(
  bytes: Uint8Array<ArrayBuffer>,
): { messages: Message[]; rest: Uint8Array<ArrayBuffer> } {
  const messages: Message[] = [];
  let rest = bytes;
  for (;;) {
    if (rest.length < MESSAGE_HEADER_BYTES) return { messages, rest };
    const header = rest.slice(0, MESSAGE_HEADER_BYTES);
    const [kind = 0, length = 0] = [...new BigUint64Array(header.buffer)]
      .map(Number);
    const end = MESSAGE_HEADER_BYTES + length;
    if (rest.length < end) return { messages, rest };
    const text = new TextDecoder("utf-8", { ignoreBOM: true })
      .decode(rest.subarray(MESSAGE_HEADER_BYTES, end));
    messages.push(toMessage(kind, text));
    rest = rest.subarray(end);
  }
}

function toMessage(kind: number, text: string): Message {
  switch (kind) {
    case MessageKind.stderr:
      return { stderr: text };
    case MessageKind.success:
      return { stdout: text, exitCode: 0 };
    case MessageKind.failure:
      return { stdout: text, exitCode: 1 };
    case MessageKind.notMine:
      return { notMine: text };
    case MessageKind.ready:
      return "ready";
    case MessageKind.alive:
      return "alive";
    default:
      throw new Error(`unknown message ${kind}: ${text}`);
  }
}
