/**
 * The daemon's side of its own protocol: reads requests, and writes messages
 * (`daemon/protocol/call_format.ts`).
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import {
  HEADER_BYTES,
  lengthAt,
  MAGIC,
  MESSAGE_HEADER_BYTES,
  MessageKind,
  REQUEST_PARTS,
  type RequestPart,
  WORD_BYTES,
} from "./call_format.ts";

/** Reads each part. */
const readers = {
  build: decodeText,
  // The plugin's type.
  name: (bytes: Bytes): string => decodeText(bytes).replace(/^.*\//s, ""),
  env: decodeEnvironment,
  // Byte for byte.
  stdin: (bytes: Bytes): Bytes => bytes,
} satisfies Record<RequestPart, (bytes: Bytes) => unknown>;

/** A call: what {@linkcode REQUEST_PARTS} says. */
export type CallRequest = {
  readonly [Part in RequestPart]: ReturnType<typeof readers[Part]>;
};

/** What the daemon says. The answer and `notMine` end the conversation. */
export type Message =
  | "ready"
  | "alive"
  | { readonly stderr: string }
  | { readonly stdout: string; readonly exitCode: number }
  | { readonly notMine: string };

/**
 * Returns the size of a request, in bytes.
 *
 * @param bytes Its beginning
 * @returns Undefined if there is too little of it to know
 * @throws {Error} If it is no request of this format
 */
export function sizeOfRequest(bytes: Uint8Array): number | undefined {
  const length = Math.min(bytes.length, MAGIC.length);
  const magic = decoder.decode(bytes.subarray(0, length));
  if (magic !== MAGIC.slice(0, length)) throw new Error("Unknown format");
  if (bytes.length < HEADER_BYTES) return undefined;
  const lengths = readLengths(bytes);
  return lengths.reduce((sum, length) => sum + length, HEADER_BYTES) + 1;
}

/**
 * Reads a complete request.
 *
 * @throws {Error} If it is none of this format
 */
export function decodeRequest(bytes: Uint8Array<ArrayBuffer>): CallRequest {
  if (sizeOfRequest(bytes) !== bytes.length || bytes.at(-1) !== LINE_FEED) {
    throw new Error("Cannot read the request: its size is another");
  }
  const lengths = readLengths(bytes);
  let at = HEADER_BYTES;
  const parts = REQUEST_PARTS.map((part, index) => [
    part,
    readers[part](bytes.subarray(at, at += lengths[index] ?? 0)),
  ]);
  return Object.fromEntries(parts);
}

const LINE_FEED = 0x0a;
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function readLengths(bytes: Uint8Array): number[] {
  const words = new BigUint64Array(bytes.slice(0, HEADER_BYTES).buffer);
  return REQUEST_PARTS.map((part) =>
    Number(words[lengthAt(part) / WORD_BYTES])
  );
}

function decodeText(bytes: Bytes): string {
  return decoder.decode(bytes);
}

/** Where a name occurs twice the first one counts, as for getenv(3). */
function decodeEnvironment(bytes: Bytes): Readonly<Record<string, string>> {
  const env: Record<string, string> = {};
  for (const entry of decodeText(bytes).split("\0")) {
    const end = entry.indexOf("=");
    const name = entry.slice(0, Math.max(end, 0));
    if (name !== "" && !Object.hasOwn(env, name)) {
      env[name] = entry.slice(end + 1);
    }
  }
  return env;
}

/** Encodes a message. */
export function encodeMessage(message: Message): Uint8Array<ArrayBuffer> {
  const [kind, text] = describe(message);
  const bytes = new TextEncoder().encode(text);
  const result = new Uint8Array(MESSAGE_HEADER_BYTES + bytes.length);
  const header = new BigUint64Array(result.buffer, 0, 2);
  header.set([kind, bytes.length].map(BigInt));
  result.set(bytes, MESSAGE_HEADER_BYTES);
  return result;
}

function describe(message: Message): [kind: number, text: string] {
  if (typeof message === "string") return [MessageKind[message], ""];
  if ("stderr" in message) return [MessageKind.stderr, message.stderr];
  if ("notMine" in message) return [MessageKind.notMine, message.notMine];
  const { stdout, exitCode } = message;
  return [exitCode === 0 ? MessageKind.success : MessageKind.failure, stdout];
}
