/**
 * Errors of netlink requests, with the kernel's explanation.
 *
 * @module
 */

import { type Bytes, i32, u32 } from "../../net/bytes.ts";
import { SyscallError } from "../errno.ts";
import { attributeSet, cstring } from "./attribute.ts";
import { Flag, messageHeader, type RawMessage } from "./message.ts";
import { alignRecord } from "./records.ts";

/** Details of a failed request beyond the error number. */
export interface Explanation {
  /** The object of the request, such as `"eth0"` or `10.1.0.0/16`. */
  readonly object?: string | undefined;
  /** The system call that failed, if the kernel did not receive the request. */
  readonly syscall?: string | undefined;
  /** The kernel's own text (extended acknowledgement). */
  readonly extAck?: string | undefined;
  /** The attribute that the kernel rejects, such as `linkInfo.kind`. */
  readonly attribute?: string | undefined;
}

/** A netlink request that failed, with the kernel's explanation. */
export class NetlinkError extends SyscallError {
  /** The class's name in messages. */
  override readonly name = "NetlinkError";
  /** Name of the message type, such as `RTM_NEWROUTE`. */
  readonly request: string;
  /** The kernel's own text (extended acknowledgement); "" if absent. */
  readonly extAck: string;
  /** The attribute that the kernel rejects, such as `linkInfo.kind`. */
  readonly attribute: string | undefined;

  /**
   * Creates an error from its number and its details.
   *
   * @param request Name of the message type
   * @param errno Positive error number
   */
  constructor(
    request: string,
    errno: number,
    { object, syscall, extAck = "", attribute }: Explanation = {},
  ) {
    const at = attribute === undefined ? "" : `(attribute ${attribute})`;
    const subject = object === undefined ? request : `${request} ${object}`;
    super(
      request,
      errno,
      [extAck, at].filter((text) => text !== "").join(" "),
      syscall === undefined ? subject : `${subject}: ${syscall}`,
    );
    this.request = request;
    this.extAck = extAck;
    this.attribute = attribute;
  }
}

/** Source: include/uapi/linux/netlink.h `enum nlmsgerr_attrs`. */
const extAckAttributes = attributeSet({
  message: [1, cstring],
  offset: [2, u32],
});

/** The kernel's verdict on a request. */
export interface ErrorReply {
  /** 0 on success, otherwise a positive error number. */
  readonly errno: number;
  /** The kernel's text; on success, a warning. */
  readonly extAck: string;
  /** Offset of the rejected attribute from the start of the whole request. */
  readonly offset: number | undefined;
}

/**
 * Decodes NLMSG_ERROR, which is also the acknowledgement, with errno 0.
 *
 * The error number is followed by the request, or only by its header if the kernel
 * capped it because of NETLINK_CAP_ACK, and then by the explanation.
 */
export function decodeError(reply: RawMessage): ErrorReply {
  const request = reply.body.subarray(i32.size);
  const echoed = reply.flags & Flag.Capped
    ? messageHeader.size
    : alignRecord(messageHeader.decode(request).length);
  return decodeErrorReply(reply, request.subarray(echoed));
}

/** Decodes NLMSG_DONE, which carries the verdict on a dump. */
export function decodeDone(reply: RawMessage): ErrorReply {
  // Very old kernels send an empty body.
  if (reply.body.length < i32.size) {
    return { errno: 0, extAck: "", offset: undefined };
  }
  return decodeErrorReply(reply, reply.body.subarray(i32.size));
}

function decodeErrorReply(reply: RawMessage, explanation: Bytes): ErrorReply {
  const { message, offset } = reply.flags & Flag.AckAttributes
    ? extAckAttributes.decode(explanation)
    : {};
  // The number is negative on the wire. DONE can also contain a count, which is
  // positive.
  const errno = Math.max(0, -i32.decode(reply.body));
  return { errno, extAck: message ?? "", offset };
}
