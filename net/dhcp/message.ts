/**
 * DHCP messages.
 *
 * @module
 */

import { Code, decodeOptions, encodeOptions, Options } from "./options.ts";
import { type Bytes, concat, struct, u16be, u32be, u8 } from "../bytes.ts";
import { Ip } from "../ip.ts";
import type { Mac } from "../mac.ts";

/** Types of messages. Source: RFC 2132, section 9.6. */
export const MessageType = {
  Discover: 1,
  Offer: 2,
  Request: 3,
  Decline: 4,
  Ack: 5,
  Nak: 6,
  Release: 7,
} as const;

/** The fixed part up to the hardware address. Source: RFC 2131, section 2. */
const header = struct({
  operation: u8,
  hardwareType: u8,
  hardwareLength: u8,
  hops: u8,
  transaction: u32be,
  seconds: u16be,
  flags: u16be,
  clientAddress: u32be,
  yourAddress: u32be,
  serverAddress: u32be,
  relayAddress: u32be,
});

const OPERATION_REQUEST = 1, OPERATION_REPLY = 2, ETHERNET = 1;
const FLAG_BROADCAST = 0x8000;
const COOKIE = "63825363", END = Uint8Array.of(255);
/**
 * Offset of the fields after the fixed part, and length of the shortest message, in
 * bytes.
 */
const Offset = {
  serverName: 44,
  file: 108,
  cookie: 236,
  options: 240,
} as const;
const SHORTEST = 300;

/** A message to a server. */
export interface ClientMessage {
  readonly type: typeof MessageType[keyof typeof MessageType];
  readonly transaction: number;
  readonly mac: Mac;
  /** Whether the client asks the server to broadcast its answer. */
  readonly wantsBroadcast: boolean;
  /** The client's current address; undefined if it has none. */
  readonly clientAddress?: Ip | undefined;
  readonly options: ReadonlyMap<number, Bytes>;
}

/** A server's answer. */
export interface ServerMessage {
  readonly transaction: number;
  readonly yourAddress: Ip;
  readonly options: Options;
}

export function encodeMessage(message: ClientMessage): Bytes {
  const { type, mac, options } = message;
  const bytes = concat([
    header.encode({
      operation: OPERATION_REQUEST,
      hardwareType: ETHERNET,
      hardwareLength: 6,
      transaction: message.transaction,
      flags: message.wantsBroadcast ? FLAG_BROADCAST : 0,
      clientAddress: Number(message.clientAddress?.value ?? 0n),
    }),
    mac.toBytes(),
    new Uint8Array(Offset.cookie - header.size - 6),
    Uint8Array.fromHex(COOKIE),
    encodeOptions(
      new Map([[Code.messageType, Uint8Array.of(type)], ...options]),
    ),
    END,
  ]);
  return concat([bytes, new Uint8Array(Math.max(0, SHORTEST - bytes.length))]);
}

/** Decodes a server's answer to a client; returns undefined for anything else. */
export function decodeMessage(
  bytes: Bytes,
  mac: Mac,
): ServerMessage | undefined {
  const isDhcp = bytes.length >= Offset.options &&
    bytes.subarray(Offset.cookie, Offset.options).toHex() === COOKIE;
  if (!isDhcp) return undefined;
  const { operation, transaction, yourAddress } = header.decode(bytes);
  const to = bytes.subarray(header.size, header.size + 6).toHex();
  if (operation !== OPERATION_REPLY || to !== mac.hex) return undefined;
  const values = new Map<number, Bytes>();
  decodeOptions(bytes.subarray(Offset.options), values);
  const options = new Options(values);
  // Options can continue in fields that are otherwise unused.
  const overload = options.get("overload") ?? 0;
  if (overload & 1) {
    decodeOptions(bytes.subarray(Offset.file, Offset.cookie), values);
  }
  if (overload & 2) {
    decodeOptions(bytes.subarray(Offset.serverName, Offset.file), values);
  }
  return {
    transaction,
    yourAddress: Ip.fromValue(4, BigInt(yourAddress)),
    options,
  };
}
