/**
 * DHCPv6 messages between a client and servers. Relays unpack the servers' messages.
 *
 * Source: RFC 8415, section 8.
 *
 * @module
 */

import { type Bytes, concat, u32be } from "../bytes.ts";
import {
  Code6,
  decodeOptions6,
  encodeOptions6,
  type Option6,
} from "./options6.ts";

/** Types of messages. Source: RFC 8415, section 7.3. */
export const MessageType6 = {
  Solicit: 1,
  Advertise: 2,
  Request: 3,
  Renew: 5,
  Rebind: 6,
  Reply: 7,
  Release: 8,
  Decline: 9,
} as const;

/**
 * Length of the message type and transaction ID, and the number of 24-bit transaction
 * IDs.
 */
const HEADER_BYTES = 4, MOST_TRANSACTIONS = 2 ** 24;
/** Longest identifier of a server, in bytes. Source: RFC 8415, section 11.1. */
const MAX_ID_BYTES = 130;

/** A message. */
export interface Message6 {
  readonly type: number;
  readonly transaction: number;
  readonly options: readonly Option6[];
}

/** A server's answer. */
export interface ServerMessage6 extends Message6 {
  /** The server's identifier. */
  readonly serverId: Bytes;
}

/** Draws a transaction ID, which a request and its answers share. */
export function newTransaction6(): number {
  const [number = 0] = crypto.getRandomValues(new Uint32Array(1));
  return number % MOST_TRANSACTIONS;
}

/** Encodes a message. */
export function encodeMessage6(
  { type, transaction, options }: Message6,
): Bytes {
  const header = u32be.encode(type * MOST_TRANSACTIONS + transaction);
  return concat([header, encodeOptions6(options)]);
}

/**
 * Decodes a server's answer to a client; returns undefined for anything else.
 *
 * @param clientId The client's identifier
 */
export function decodeMessage6(
  bytes: Bytes,
  clientId: Bytes,
): ServerMessage6 | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const first = u32be.decode(bytes.subarray(0, HEADER_BYTES));
  const type = Math.floor(first / MOST_TRANSACTIONS);
  if (type !== MessageType6.Advertise && type !== MessageType6.Reply) {
    return undefined;
  }
  const options = decodeOptions6(bytes.subarray(HEADER_BYTES));
  // Source: RFC 8415, sections 16.3 and 16.10.
  const idsOf = (code: number): Bytes[] =>
    options.filter(([other]) => other === code).map(([, value]) => value);
  const [client, ...moreClients] = idsOf(Code6.clientId);
  const [serverId, ...moreServers] = idsOf(Code6.serverId);
  const isAnswer = client?.toHex() === clientId.toHex() &&
    serverId !== undefined && serverId.length > 0 &&
    serverId.length <= MAX_ID_BYTES &&
    moreClients.length === 0 && moreServers.length === 0;
  if (!isAnswer) return undefined;
  const transaction = first % MOST_TRANSACTIONS;
  return { type, transaction, options, serverId };
}
