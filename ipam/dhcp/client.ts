/**
 * The messages of a DHCP client to servers, and how it evaluates their answers.
 *
 * Source: RFC 2131, section 4.4; containernetworking/plugins
 * plugins/ipam/dhcp/lease.go.
 *
 * @module
 */

import { JoinedSignal, pause } from "../../base/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import type { Lease, LeaseRequest } from "./lease.ts";
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

/** The daemon's limits, in ms. */
export interface Timing {
  /** How long one attempt to get a lease may take. */
  readonly timeoutMs: number;
  /** Longest pause between two attempts. */
  readonly resendMaxMs: number;
  /** When to give up. */
  readonly resendTimeoutMs: number;
}

/** Source: lease.go, main.go. */
export const DEFAULT_TIMING: Timing = {
  timeoutMs: 10_000,
  resendMaxMs: 62_000,
  resendTimeoutMs: 208_000,
};

/** How a client asks. */
export interface ClientOptions extends Timing {
  /** Whether servers are to answer by broadcast. */
  readonly broadcast: boolean;
}

/** The server refused a lease. */
export class RefusedError extends Error {}

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
  if (type === MessageType.Release) {
    options.delete(Code.requestList);
    options.delete(Code.maxMessageSize);
  }
  return { type, wantsBroadcast: false, ...more, options };
}

/**
 * Gets a new lease.
 *
 * @param before The address to ask for
 * @throws {RefusedError} If the server takes its offer back
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
  lease: Lease,
  { server, signal, broadcast: wantsBroadcast, isReboot = false }:
    & ClientOptions
    & {
      readonly signal: AbortSignal;
      readonly server?: Server | undefined;
      /** Whether this daemon was restarted, and may have missed something. */
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
export function release(port: Port, lease: Lease): void {
  const server = serverOf(lease);
  if (server === undefined) return;
  const message = messageOf(MessageType.Release, lease, {
    clientAddress: Ip.parse(lease.address),
    options: new Map([[Code.serverId, server.ip.toBytes()]]),
  });
  port.send(message, server);
}

/** Returns the server that granted a lease. */
export function serverOf({ ack, serverMac }: Lease): Server | undefined {
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

/** Pauses between attempts: the first ones are short. Source: lease.go `backoffRetry`. */
const FAST_MS = 2000, FAST_TRIES = 4, FIRST_MS = 4000, JITTER_MS = 1000;

/**
 * Makes attempts until one succeeds.
 *
 * @throws {CniError} 11 if none does until the time limit or the signal
 */
export async function retryUntilDone<T>(
  attempt: (signal: AbortSignal) => Promise<T>,
  { timeoutMs, resendMaxMs, resendTimeoutMs, signal, onFailure }: Timing & {
    readonly signal: AbortSignal;
    readonly onFailure: (error: unknown) => void;
  },
): Promise<T> {
  using limit = new JoinedSignal(resendTimeoutMs, signal);
  const { signal: over } = limit;
  for (let tries = 0, slowMs = FIRST_MS;; tries++) {
    try {
      using limit = new JoinedSignal(timeoutMs, over);
      return await attempt(limit.signal);
    } catch (error) {
      onFailure(error);
      const isFast = tries < FAST_TRIES;
      await pause((isFast ? FAST_MS : slowMs) + jitter(), over);
      if (signal.aborted) throw ended(signal);
      if (over.aborted) {
        const text = `no more tries: ${describeError(error)}`;
        throw new CniError(ErrorCode.TryAgainLater, text);
      }
      if (!isFast && slowMs < resendMaxMs) slowMs *= 2;
    }
  }
}

/** Returns the error of a call that is ended. */
export function ended({ reason }: AbortSignal): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `The DHCP daemon gave up: ${describeError(reason)}`,
  );
}

function jitter(): number {
  return JITTER_MS * (2 * Math.random() - 1);
}
