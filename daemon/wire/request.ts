/**
 * The daemon's side of its own protocol: reads requests, and writes messages
 * (`daemon/wire/call_format.ts`).
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import {
  END,
  HEADER_BYTES,
  lengthAt,
  MAGIC,
  MessageAt,
  MessageKind,
  readNumber,
  REQUEST_PARTS,
  type RequestPart,
  writeNumber,
} from "./call_format.ts";

/** The decoders of parts. */
const readers = {
  text: decodeText,
  fileName: (bytes: Bytes): string => decodeText(bytes).replace(/^.*\//s, ""),
  variables: decodeEnvironment,
  bytes: (bytes: Bytes): Bytes => bytes,
} satisfies Record<RequestPart["as"], (bytes: Bytes) => unknown>;

/** A call: the parts in {@linkcode REQUEST_PARTS}. */
export type CallRequest = {
  readonly [Part in RequestPart as Part["name"]]: ReturnType<
    typeof readers[Part["as"]]
  >;
};

/** The daemon's message. The answer and `declined` end the conversation. */
export type Message =
  | "taken"
  | "alive"
  | { readonly stderr: string }
  | { readonly stdout: string; readonly exitCode: number }
  | { readonly declined: string };

/**
 * Returns the size of a request, in bytes.
 *
 * @param bytes Its beginning
 * @returns Undefined if the header is incomplete
 * @throws {Error} If it is not a request of this format
 */
export function sizeOfRequest(bytes: Uint8Array): number | undefined {
  const length = Math.min(bytes.length, MAGIC.length);
  const magic = decoder.decode(bytes.subarray(0, length));
  if (magic !== MAGIC.slice(0, length)) throw new Error("Unknown format");
  if (bytes.length < HEADER_BYTES) return undefined;
  const lengths = readLengths(bytes);
  return lengths.reduce((sum, length) => sum + length, HEADER_BYTES) +
    END.length;
}

/**
 * Reads a complete request.
 *
 * @throws {Error} If it does not have this format
 */
export function decodeRequest(bytes: Uint8Array<ArrayBuffer>): CallRequest {
  const end = decoder.decode(bytes.subarray(-END.length));
  if (sizeOfRequest(bytes) !== bytes.length || end !== END) {
    throw new Error(
      "Cannot read the request: its length or its end marker is wrong",
    );
  }
  const lengths = readLengths(bytes);
  let at = HEADER_BYTES;
  const parts = REQUEST_PARTS.map(({ name, as }, index) => [
    name,
    readers[as](bytes.subarray(at, at += lengths[index] ?? 0)),
  ]);
  return Object.fromEntries(parts);
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function readLengths(bytes: Uint8Array): number[] {
  return REQUEST_PARTS.map(({ name }) => readNumber(bytes, lengthAt(name)));
}

function decodeText(bytes: Bytes): string {
  return decoder.decode(bytes);
}

/** If a name occurs twice, the first variable counts, as for getenv(3). */
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
  const result = new Uint8Array(MessageAt.bytes + bytes.length);
  writeNumber(result, MessageAt.kind, kind);
  writeNumber(result, MessageAt.length, bytes.length);
  result.set(bytes, MessageAt.bytes);
  return result;
}

function describe(message: Message): [kind: number, text: string] {
  if (typeof message === "string") return [MessageKind[message], ""];
  if ("stderr" in message) return [MessageKind.log, message.stderr];
  if ("declined" in message) return [MessageKind.declined, message.declined];
  const { stdout, exitCode } = message;
  return [exitCode === 0 ? MessageKind.success : MessageKind.failure, stdout];
}
