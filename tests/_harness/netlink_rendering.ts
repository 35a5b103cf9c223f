/**
 * Messages of rtnetlink as JSON: what our decoder makes of bytes, for golden
 * files and for people.
 *
 * @module
 */

import type { Bytes, Fields } from "../../net/bytes.ts";
import { errnoName } from "../../ffi/errno.ts";
import { decodeDone, decodeError } from "../../ffi/netlink/error.ts";
import {
  ControlType,
  messageHeader,
  type MessageType,
  type RawMessage,
  splitMessages,
} from "../../ffi/netlink/message.ts";
import type { Rows } from "../../ffi/netlink/attribute.ts";
import {
  delAddress,
  getAddress,
  newAddress,
} from "../../ffi/rtnl/address_message.ts";
import {
  delLink,
  getLink,
  newLink,
  setBridgePort,
} from "../../ffi/rtnl/link_message.ts";
import {
  delNeighbor,
  getNeighbor,
  newNeighbor,
} from "../../ffi/rtnl/neighbor_message.ts";
import { delRoute, getRoute, newRoute } from "../../ffi/rtnl/route_message.ts";
import { delRule, getRule, newRule } from "../../ffi/rtnl/rule_message.ts";
import {
  delClass,
  delFilter,
  delQdisc,
  getClass,
  getFilter,
  getQdisc,
  newClass,
  newFilter,
  newQdisc,
} from "../../ffi/rtnl/traffic_control_message.ts";

/** Any kind of message. */
export type AnyMessageType = MessageType<Fields, Rows>;

const TYPES = [
  ...[newLink, delLink, getLink, setBridgePort],
  ...[newAddress, delAddress, getAddress],
  ...[newRoute, delRoute, getRoute],
  ...[newNeighbor, delNeighbor, getNeighbor],
  ...[newRule, delRule, getRule],
  ...[newQdisc, delQdisc, getQdisc],
  ...[newClass, delClass, getClass],
  ...[newFilter, delFilter, getFilter],
] as unknown as AnyMessageType[];

/** A message as JSON, without absent attributes. */
export interface Rendering {
  readonly type: string;
  readonly flags: string;
  readonly header?: Readonly<Record<string, unknown>>;
  readonly attributes?: Readonly<Record<string, unknown>>;
  readonly verdict?: Readonly<Record<string, unknown>>;
}

/** Finds the kind of a message by its number. */
export function findMessageType(type: number): AnyMessageType | undefined {
  return TYPES.find((known) => known.type === type);
}

/**
 * Takes one message from the start of bytes.
 *
 * @throws {RangeError} If the bytes hold no message
 */
export function firstMessage(bytes: Bytes): RawMessage {
  // iproute2 sends its whole buffer; the rest is not a message.
  const { length } = messageHeader.decode(bytes);
  const [message] = splitMessages(bytes.subarray(0, length));
  if (message === undefined) throw new RangeError("Cannot find a message");
  return message;
}

/**
 * Renders one message.
 *
 * @param request The request that a verdict is on, to name the attribute that
 * the kernel objects to
 */
export function renderMessage(
  message: RawMessage,
  request?: RawMessage,
): Rendering {
  const flags = `0x${message.flags.toString(16)}`;
  if (message.type === ControlType.Error) {
    return { type: "NLMSG_ERROR", flags, ...renderVerdict(message, request) };
  }
  if (message.type === ControlType.Done) {
    return { type: "NLMSG_DONE", flags, ...renderVerdict(message, request) };
  }
  const type = findMessageType(message.type);
  if (type === undefined) return { type: `${message.type}`, flags };
  return toJson({ type: type.name, flags, ...type.decode(message.body) });
}

function renderVerdict(
  reply: RawMessage,
  request: RawMessage | undefined,
): Pick<Rendering, "verdict"> {
  const { errno, extAck, offset } = reply.type === ControlType.Error
    ? decodeError(reply)
    : decodeDone(reply);
  const attribute = offset === undefined || request === undefined
    ? undefined
    : findMessageType(request.type)
      ?.locate?.(request.body, offset - messageHeader.size);
  const name = errno === 0 ? "success" : errnoName(errno);
  return toJson({ verdict: { errno: name, extAck, offset, attribute } });
}

/** Turns addresses into text and bytes into hex, and leaves undefined out. */
function toJson<T>(value: unknown): T {
  return JSON.parse(JSON.stringify(value, (_key, part) => {
    if (typeof part === "bigint") return part.toString();
    return part instanceof Uint8Array ? part.toHex() : part;
  }));
}
