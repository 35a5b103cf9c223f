/**
 * Netlink messages that {@linkcode Rtnl} does not cover: declare a message
 * once, as tables, and use it by name.
 *
 * One row `name: [TYPE, codec]` is an attribute's documentation, encoder,
 * decoder, type and name in errors. Numbers and order come from the kernel's
 * headers.
 *
 * ```ts
 * import { type Call, openSandbox } from "@cni/plugins";
 * import { attributeSet, message, struct, u16, u32 } from "@cni/plugins/netlink";
 * import { i32, u8 } from "@cni/plugins/netlink";
 *
 * // include/uapi/linux/rtnetlink.h, `struct ifinfomsg`; if_link.h
 * const header = struct({ family: u8, type: u16, index: i32, flags: u32, change: u32 });
 * const attributes = attributeSet({ transmitQueueLength: [13, u32] });
 * const newLink = message("RTM_NEWLINK", 16, header, attributes);
 *
 * function setQueueLength({ args }: Call, packets: number): void {
 *   using sandbox = openSandbox(args);
 *   const { index } = sandbox.link.get(args.ifName);
 *   sandbox.socket.request(newLink, {
 *     header: { index },
 *     attributes: { transmitQueueLength: packets },
 *   });
 * }
 * ```
 *
 * @module
 */

export {
  type Answer,
  type EncodedRequest,
  encodeRequest,
  type Request,
} from "./request.ts";
export { type Listing, NetlinkSocket, Protocol } from "./socket.ts";
export type { BackgroundRequests } from "./background.ts";
export {
  type Body,
  type Describe,
  Flag,
  message,
  type MessageType,
  type RawMessage,
} from "./message.ts";
export {
  type AttributeSet,
  attributeSet,
  type AttributeValues,
  cstring,
  type DecodedAttributes,
  flag,
  ip,
  lazily,
  listOf,
  mac,
  markedNested,
  nested,
  raw,
  type RawAttribute,
  type Row,
  type Rows,
} from "./attribute.ts";
export {
  type Codec,
  type Fields,
  type FixedCodec,
  i32,
  i32be,
  type Struct,
  struct,
  type StructValue,
  u16,
  u16be,
  u32,
  u32be,
  u64,
  u64be,
  u8,
} from "../../net/bytes.ts";
export type { Bytes } from "../../net/bytes.ts";
