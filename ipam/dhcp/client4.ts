/**
 * The messages of a DHCPv4 client to servers, and the evaluation of the answers.
 *
 * Source: RFC 2131, section 4.4; containernetworking/plugins
 * plugins/ipam/dhcp/lease.go.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { type ClientOptions, RefusedError } from "./client.ts";
import type { Lease4, LeaseRequest } from "./lease.ts";
import { Code, encodeMaxSize, Options } from "../../net/dhcp/options.ts";
import type { Bytes } from "../../net/bytes.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { type ClientMessage, MessageType } from "../../net/dhcp/message.ts";
import {
  newTransaction,
  type Port,
  type Reply,
  type Sent,
  type Server,
} from "./port.ts";

/** Longest client identifier without its type, in bytes. */
const CLIENT_ID_BYTES = 254;
const MAX_MESSAGE_BYTES = 1500;

/** Builds a message, with the options that belong to every request. */
function messageOf(
  type: ClientMessage["type"],
  request: LeaseRequest,
  more: Partial<Sent> = {},
): Sent {
  const { containerId, network, ifName } = request;
  const name = new TextEncoder().encode(`${containerId}/${network}/${ifName}`);
  const clientId = Uint8Array.of(0, ...name.subarray(0, CLIENT_ID_BYTES));
  const wanted = Options.fromJSON(request.options).values;
  const options = new Map<number, Bytes>([
    [Code.clientId, clientId],
    [Code.maxMessageSize, encodeMaxSize(MAX_MESSAGE_BYTES)],
    ...wanted,
    ...more.options ?? [],
  ]);
  if (type === MessageType.Release || type === MessageType.Decline) {
    options.delete(Code.requestList);
    options.delete(Code.maxMessageSize);
  }
  return { type, wantsBroadcast: false, ...more, options };
}

/**
 * Gets a new lease.
 *
 * @param before The address to ask for
 * @throws {RefusedError} If the server withdraws its offer
 * @throws {CniError} 11 if no server answers until the signal
 */
export async function discover(
  port: Port,
  request: LeaseRequest,
  { broadcast: wantsBroadcast, signal, before }: ClientOptions & {
    readonly signal: AbortSignal;
    readonly before?: string;
  },
): Promise<Reply> {
  const hint = before === undefined
    ? []
    : [[Code.requestedAddress, Ip.parse(before).toBytes()] as const];
  const transaction = newTransaction();
  const offer = await port.exchange(
    messageOf(MessageType.Discover, request, {
      wantsBroadcast,
      options: new Map(hint),
    }),
    (reply) => typeOf(reply) === MessageType.Offer ? reply : undefined,
    { signal, transaction },
  );
  const serverId = offer?.options.get("serverId");
  if (offer === undefined || serverId === undefined) {
    throw new CniError(ErrorCode.TryAgainLater, "No DHCP server made an offer");
  }
  const options = new Map([
    [Code.requestedAddress, offer.yourAddress.toBytes()],
    [Code.serverId, serverId.toBytes()],
  ]);
  const sent = { wantsBroadcast, options };
  const ack = await port.exchange(
    messageOf(MessageType.Request, request, sent),
    (reply) =>
      reply.options.get("serverId")?.equals(serverId) === false
        ? undefined
        : acknowledged(reply),
    { signal, transaction },
  );
  return granted(ack, `DHCP server ${serverId} did not confirm its offer`);
}

/**
 * Asks to keep a lease: the server that granted it, or any.
 *
 * @throws {RefusedError} If the server refuses
 * @throws {CniError} 11 if no server answers until the signal
 */
export async function extend(
  port: Port,
  lease: Lease4,
  { server, signal, broadcast: wantsBroadcast, isReboot = false }:
    & ClientOptions
    & {
      readonly signal: AbortSignal;
      readonly server?: Server | undefined;
      /** Whether this daemon was restarted, and might have missed changes. */
      readonly isReboot?: boolean;
    },
): Promise<Reply> {
  const clientAddress = Ip.parse(lease.address);
  const message = isReboot
    ? {
      wantsBroadcast,
      options: new Map([[Code.requestedAddress, clientAddress.toBytes()]]),
    }
    : { clientAddress };
  const ack = await port.exchange(
    messageOf(MessageType.Request, lease, message),
    acknowledged,
    { signal, server },
  );
  const reply = granted(ack, "No DHCP server answered");
  if (reply.yourAddress.equals(clientAddress)) return reply;
  throw new RefusedError(`the server changed it to ${reply.yourAddress}`);
}

/** Tells the server that a lease is no longer needed. */
export function release(port: Port, lease: Lease4): void {
  const server = serverOf(lease);
  if (server === undefined) return;
  const message = messageOf(MessageType.Release, lease, {
    clientAddress: Ip.parse(lease.address),
    options: new Map([[Code.serverId, server.ip.toBytes()]]),
  });
  port.send(message, server);
}

/**
 * Informs the server that a different host has the address of a lease.
 *
 * Source: RFC 2131, sections 3.1 (5) and 4.4.4.
 */
export function decline(port: Port, lease: Lease4): void {
  const server = serverOf(lease);
  if (server === undefined) return;
  port.send(messageOf(MessageType.Decline, lease, {
    options: new Map([
      [Code.requestedAddress, Ip.parse(lease.address).toBytes()],
      [Code.serverId, server.ip.toBytes()],
    ]),
  }));
}

/** Returns the server that granted a lease. */
export function serverOf({ ack, serverMac }: Lease4): Server | undefined {
  const ip = Options.fromJSON(ack).get("serverId");
  return ip && { ip, mac: Mac.parse(serverMac) };
}

function typeOf({ options }: Reply): number | undefined {
  return options.get("messageType");
}

/** Returns an acknowledgement, or the text of a refusal. */
function acknowledged(reply: Reply): Reply | string | undefined {
  const type = typeOf(reply);
  if (type === MessageType.Ack) return reply;
  if (type !== MessageType.Nak) return undefined;
  return reply.options.get("message") ?? "no reason given";
}

function granted(answer: Reply | string | undefined, silence: string): Reply {
  if (typeof answer === "object") return answer;
  if (answer === undefined) {
    throw new CniError(ErrorCode.TryAgainLater, silence);
  }
  throw new RefusedError(`the DHCP server refused the lease: ${answer}`);
}
