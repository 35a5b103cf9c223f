/**
 * The caller's side of the node daemon's own protocol, for tests.
 *
 * @module
 */

import {
  encodeRequest as encodeSources,
  MessageAt,
  MessageKind,
  readMessageHead,
} from "../../daemon/wire/call_format.ts";
import type { CallRequest, Message } from "../../daemon/wire/request.ts";

/** Encodes a request, with nothing in the parts that are not given. */
export function encodeRequest(
  { build = "", name = "", env = {}, stdin = new Uint8Array() }: Partial<
    CallRequest
  >,
): Uint8Array<ArrayBuffer> {
  const variables = Object.entries(env)
    .map(([name, value]) => `${name}=${value}\0`);
  return encodeSources({
    identity: build,
    argv0: name,
    environment: variables.join(""),
    stdin,
  });
}

/** Decodes the messages that are complete; also returns the rest. */
export function decodeMessages(
  bytes: Uint8Array<ArrayBuffer>,
): { messages: Message[]; rest: Uint8Array<ArrayBuffer> } {
  const messages: Message[] = [];
  let rest = bytes;
  for (;;) {
    if (rest.length < MessageAt.bytes) return { messages, rest };
    const { kind, length } = readMessageHead(rest);
    const end = MessageAt.bytes + length;
    if (rest.length < end) return { messages, rest };
    const text = new TextDecoder("utf-8", { ignoreBOM: true })
      .decode(rest.subarray(MessageAt.bytes, end));
    messages.push(toMessage(kind, text));
    rest = rest.subarray(end);
  }
}

function toMessage(kind: number, text: string): Message {
  switch (kind) {
    case MessageKind.log:
      return { stderr: text };
    case MessageKind.success:
      return { stdout: text, exitCode: 0 };
    case MessageKind.failure:
      return { stdout: text, exitCode: 1 };
    case MessageKind.declined:
      return { declined: text };
    case MessageKind.taken:
      return "taken";
    case MessageKind.alive:
      return "alive";
    default:
      throw new Error(`unknown message ${kind}: ${text}`);
  }
}
