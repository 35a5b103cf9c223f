/**
 * What a kubelet answers, and what can be wrong with that.
 *
 * Source: gRPC's PROTOCOL-HTTP2.md
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { ErrorCode } from "../http2/http2_error.ts";
import type { Http2Stream } from "../http2/stream.ts";

/** A method of the service. */
export type PodResourcesMethod = "List" | "Get";

/** What a kubelet does instead of answering. */
export interface KubeletFault {
  /** Any method if undefined. */
  readonly method?: PodResourcesMethod;
  /** How many calls it meets; all of them if undefined. */
  readonly times?: number;
  /** Waits so long first. With nothing else it then answers. */
  readonly delayMs?: number;
  /** Never answers, and keeps the stream open. */
  readonly hang?: boolean;
  /** Fails with this gRPC status, as 14 (UNAVAILABLE). */
  readonly grpcStatus?: number;
  /** grpc-message; percent-encoded on the wire. */
  readonly grpcMessage?: string;
  /** Whether a status is in the first and only headers, or in trailers. The former if undefined, as Go does it. */
  readonly where?: "trailers-only" | "trailers";
  /** HTTP status instead of 200, without gRPC. */
  readonly httpStatus?: number;
  /** The message instead of the right one; framed as gRPC does. */
  readonly message?: Bytes;
  /** The whole body instead of the right one. */
  readonly body?: Bytes;
  /** Ends the stream without trailers. */
  readonly withoutTrailers?: boolean;
  /** Resets the stream, or closes the connection, halfway through the body. */
  readonly drop?: "stream" | "connection";
}

/** What is sent in the end. */
export interface Reply {
  readonly status: number;
  readonly message?: string;
  /** What comes before the status; nothing for an error. */
  readonly body?: Bytes;
}

/** Returns what is sent under a fault. */
export function overrideReply(reply: Reply, fault: KubeletFault): Reply {
  const { grpcStatus, grpcMessage, message, body } = fault;
  if (grpcStatus !== undefined) {
    return { status: grpcStatus, message: grpcMessage ?? "" };
  }
  if (message !== undefined) return { status: 0, body: frameMessage(message) };
  return body === undefined ? reply : { status: 0, body };
}

/** Prefixes a message as gRPC does: uncompressed, and its length. */
export function frameMessage(message: Bytes): Bytes {
  const framed = new Uint8Array(5 + message.length);
  new DataView(framed.buffer).setUint32(1, message.length);
  framed.set(message, 5);
  return framed;
}

/** Sends an answer, or as much of it as a fault leaves. */
export async function sendReply(
  stream: Http2Stream,
  { status, message = "", body }: Reply,
  fault: KubeletFault,
): Promise<void> {
  if (fault.httpStatus !== undefined) return await refuse(stream, fault);
  const headers = { ":status": "200", "content-type": "application/grpc" };
  const trailers = {
    "grpc-status": String(status),
    ...(message === "" ? {} : { "grpc-message": encodeMessage(message) }),
  };
  if (body === undefined && fault.where !== "trailers") {
    const all = { ...headers, ...trailers };
    return await stream.sendHeaders(all, { endStream: true });
  }
  await stream.sendHeaders(headers);
  if (fault.drop !== undefined) return await drop(stream, body, fault.drop);
  if (body !== undefined) await stream.sendData(body);
  if (fault.withoutTrailers) await stream.sendEnd();
  else await stream.sendHeaders(trailers, { endStream: true });
}

async function refuse(
  stream: Http2Stream,
  { httpStatus }: KubeletFault,
): Promise<void> {
  await stream.sendHeaders({ ":status": String(httpStatus) });
  await stream.sendData(new TextEncoder().encode("not gRPC\n"));
  await stream.sendEnd();
}

/** Leaves alone what is printable, spaces too, unlike a URL. */
function encodeMessage(text: string): string {
  return text.replace(/[^ -~]|%/gu, encodeURIComponent);
}

async function drop(
  stream: Http2Stream,
  body: Bytes = new Uint8Array(),
  what: "stream" | "connection",
): Promise<void> {
  await stream.sendData(body.subarray(0, Math.ceil(body.length / 2)));
  if (what === "stream") await stream.reset(ErrorCode.internalError);
  else await stream.endConnection();
}
