/**
 * The replies of a kubelet, and their faults.
 *
 * Source: gRPC's PROTOCOL-HTTP2.md
 *
 * @module
 */

import type { Bytes } from "../../../../net/bytes.ts";
import type { Http2Reply } from "./http2_server.ts";

/** A method of the service. */
export type PodResourcesMethod = "List" | "Get";

/** A fault that replaces a kubelet's reply. */
export interface KubeletFault {
  /** Any method if undefined. */
  readonly method?: PodResourcesMethod;
  /** How many calls fail; all if undefined. */
  readonly times?: number;
  /** Delay before the reply, in ms. */
  readonly delayMs?: number;
  /** Never replies, and keeps the stream open. */
  readonly hang?: boolean;
  /** Fails with this gRPC status, such as 14 (UNAVAILABLE). */
  readonly grpcStatus?: number;
  /** grpc-message; percent-encoded on the wire. */
  readonly grpcMessage?: string;
  /** Where the status of an error is: in the only headers (the default, as in Go), or in trailers. */
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

/** A reply of the service. */
export interface Reply {
  readonly status: number;
  readonly message?: string;
  /** The framed message; undefined for an error. */
  readonly body?: Bytes;
}

/** Returns the reply that a fault asks for. */
export function overrideReply(reply: Reply, fault: KubeletFault): Reply {
  const { grpcStatus, grpcMessage, message, body } = fault;
  if (grpcStatus !== undefined) {
    return { status: grpcStatus, message: grpcMessage ?? "" };
  }
  if (message !== undefined) return { status: 0, body: frameMessage(message) };
  return body === undefined ? reply : { status: 0, body };
}

/** Frames a message as gRPC does: an uncompressed flag and the length come first. */
export function frameMessage(message: Bytes): Bytes {
  const framed = new Uint8Array(5 + message.length);
  new DataView(framed.buffer).setUint32(1, message.length);
  framed.set(message, 5);
  return framed;
}

/** Builds what goes over the wire, as much of it as a fault leaves. */
export function formatReply(
  { status, message = "", body }: Reply,
  fault: KubeletFault,
): Http2Reply {
  const { httpStatus, drop, where, withoutTrailers } = fault;
  if (httpStatus !== undefined) {
    const body = new TextEncoder().encode("not gRPC\n");
    return { headers: { ":status": String(httpStatus) }, body };
  }
  const headers = { ":status": "200", "content-type": "application/grpc" };
  const trailers = {
    "grpc-status": String(status),
    ...(message === "" ? {} : { "grpc-message": encodeMessage(message) }),
  };
  if (body === undefined && where !== "trailers") {
    return { headers: { ...headers, ...trailers } };
  }
  const bytes = body ?? new Uint8Array();
  if (drop !== undefined) {
    const half = bytes.slice(0, Math.ceil(bytes.length / 2));
    return { headers, body: half, drop };
  }
  return { headers, body: bytes, ...(withoutTrailers ? {} : { trailers }) };
}

/** Leaves printable characters alone, spaces too, unlike a URL. */
function encodeMessage(text: string): string {
  return text.replace(/[^ -~]|%/gu, encodeURIComponent);
}
