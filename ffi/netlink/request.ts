/**
 * Requests to the kernel, its answers and refusals.
 *
 * @module
 */

import type { Bytes, Fields, StructValue } from "../../net/bytes.ts";
import { SyscallError } from "../errno.ts";
import type { DecodedAttributes, Rows } from "./attribute.ts";
import { type ErrorReply, NetlinkError } from "./error.ts";
import {
  type Body,
  Flag,
  messageHeader,
  type MessageType,
  type RawMessage,
} from "./message.ts";

/** A request: its body and any flags besides REQUEST and ACK. */
export interface Request<F extends Fields, R extends Rows> extends Body<F, R> {
  /** Values of {@linkcode Flag}. */
  readonly flags?: number;
}

/** A request, encoded except for its sequence number. */
export interface EncodedRequest {
  /** The kernel's name of its type, used in errors. */
  readonly name: string;
  /** Names its object in errors. */
  readonly describe: () => string | undefined;
  /** The kernel's number of its type. */
  readonly type: number;
  /** All flags, including REQUEST and ACK. */
  readonly flags: number;
  /** The bytes after the common header. */
  readonly body: Bytes;
  /** The request's content. */
  readonly content: {
    readonly header: object;
    readonly attributes?: object | undefined;
  };
  /** Names the attribute at an offset of the body. */
  readonly locate: (offset: number) => string | undefined;
}

/** Reports whether a request changes something, by the kernel's name for it. */
export function isChange({ name }: EncodedRequest): boolean {
  return !name.includes("GET");
}

/** Encodes a request to send together with further requests. */
export function encodeRequest<F extends Fields, R extends Rows>(
  type: MessageType<F, R>,
  request: Request<F, R>,
): EncodedRequest {
  const body = type.encode(request);
  return {
    name: type.name,
    describe: () => type.describe?.(request),
    type: type.type,
    flags: Flag.Request | (request.flags ?? 0),
    body,
    content: request,
    locate: (offset) => type.locate?.(body, offset),
  };
}

/** Asks for an acknowledgement of the last request only, which ends the answers. */
export function acknowledgeLast(
  request: EncodedRequest,
  index: number,
  { length }: readonly EncodedRequest[],
): EncodedRequest {
  if (index < length - 1) return request;
  return { ...request, flags: request.flags | Flag.Ack };
}

/** A decoded answer. */
export interface Answer<F extends Fields, R extends Rows> {
  /** All fields of the fixed header. */
  readonly header: StructValue<F>;
  /** The attributes of the answer. */
  readonly attributes: DecodedAttributes<R>;
}

export function decodeAnswers<F extends Fields, R extends Rows>(
  replies: readonly RawMessage[],
  answers: MessageType<F, R> | undefined,
): Answer<F, R>[] {
  if (answers === undefined) return [];
  const { type: wanted, families } = answers;
  return replies.filter(({ type, body: [family = 0] }) =>
    type === wanted && (families?.includes(family) ?? true)
  ).map(({ body }) => answers.decode(body));
}

/**
 * Runs `work`, and names the request in the error of a failed system call.
 *
 * @throws {NetlinkError} With the call's errno
 */
export function during<T>(
  { name, describe }: EncodedRequest,
  work: () => T,
): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    const { syscall, number } = error;
    throw new NetlinkError(name, number, { object: describe(), syscall });
  }
}

/** @throws {NetlinkError} If the verdict is an error */
export function throwIfRefused(
  request: EncodedRequest,
  verdict: ErrorReply,
): void {
  const refusal = refusalOf(request, verdict);
  if (refusal !== undefined) throw refusal;
}

export function refusalOf(
  { name, describe, locate }: EncodedRequest,
  { errno, extAck, offset }: ErrorReply,
): NetlinkError | undefined {
  if (errno === 0) return undefined;
  const attribute = offset === undefined
    ? undefined
    : locate(offset - messageHeader.size);
  const object = describe();
  return new NetlinkError(name, errno, { object, extAck, attribute });
}
