/**
 * The messages of a DHCPv6 client to servers, and the evaluation of the answers.
 *
 * Source: RFC 8415, section 18.2.
 *
 * @module
 */

import { JoinedSignal, pause } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { type Bytes, concat, u16be } from "../../net/bytes.ts";
import { MessageType6, type ServerMessage6 } from "../../net/dhcp/message6.ts";
import {
  Code6,
  decodeAssociation,
  encodeAssociation,
  type IdentityAssociation,
  type LeasedAddress,
  type Option6,
  Status6,
  statusIn,
} from "../../net/dhcp/options6.ts";
import { Ip } from "../../net/ip.ts";
import { RefusedError } from "./client.ts";
import { exchange6, type Identity } from "./exchange6.ts";
import type { Lease6 } from "./lease.ts";
import type { Port } from "./port.ts";

/** What a server has granted. */
export interface Grant {
  readonly serverId: Bytes;
  readonly association: IdentityAssociation;
  readonly options: readonly Option6[];
}

/** The requested options: servers send other options without a request. */
const WANTED = [Code6.nameServers, Code6.domainSearch];

/** Longest wait for the answer to a release or a refusal, in ms. */
const RETURN_MS = 1000;
/**
 * How long other servers can grant a refused address, in ms: time for two more
 * messages.
 */
const OTHERS_MS = 4000;
/** Longest reason of a server that an error has, in UTF-16 code units. */
const MAX_REASON = 200;

/**
 * Gets addresses from the first server that offers some.
 *
 * @param hints The addresses to ask for
 * @throws {RefusedError} If the server withdraws its offer
 * @throws {CniError} 11 if no server offers an address until the signal
 */
export async function solicit(
  port: Port,
  identity: Identity,
  { hints, signal }: {
    readonly hints: readonly Ip[];
    readonly signal: AbortSignal;
  },
): Promise<Grant> {
  let reason = "";
  const offer = await exchange6(port, identity, {
    signal,
    message: messageOf(MessageType6.Solicit, identity, { ips: hints }),
    choose: (reply) => {
      if (reply.type !== MessageType6.Advertise) return undefined;
      const grant = grantIn(reply, identity);
      if (grant !== undefined && hasAddress(grant)) return grant;
      reason = refusalIn(reply, grant) ?? "it offered no address";
      return undefined;
    },
  });
  if (offer === undefined) {
    throw new CniError(
      ErrorCode.TryAgainLater,
      reason === ""
        ? "No DHCPv6 server made an offer"
        : `No DHCPv6 server offered an address: ${reason}`,
    );
  }
  const { serverId, association: { addresses } } = offer;
  const ips = addresses.map(({ ip }) => ip);
  return await ask(port, identity, {
    signal,
    type: MessageType6.Request,
    ips,
    serverId,
  });
}

/** A server does not know the addresses of an interface. */
class NoBindingError extends RefusedError {
  readonly serverId: Bytes;

  constructor(message: string, serverId: Bytes) {
    super(message);
    this.serverId = serverId;
  }
}

/**
 * Asks to keep addresses: the server that granted them, or any. A server that does
 * not know them is asked to grant them anew.
 *
 * Source: RFC 8415, section 18.2.10.1.
 *
 * @throws {RefusedError} If the server refuses
 * @throws {CniError} 11 if no server answers until the signal
 */
export async function extend6(
  port: Port,
  identity: Identity,
  { lease: { addresses, serverId }, asksAll, signal }: {
    readonly lease: Lease6;
    readonly asksAll: boolean;
    readonly signal: AbortSignal;
  },
): Promise<Grant> {
  const ips = addresses.map(({ address }) => Ip.parse(address));
  try {
    return await ask(port, identity, {
      signal,
      type: asksAll ? MessageType6.Rebind : MessageType6.Renew,
      ips,
      ...asksAll ? {} : { serverId: Uint8Array.fromHex(serverId) },
    });
  } catch (error) {
    if (!(error instanceof NoBindingError) || signal.aborted) throw error;
    const { serverId } = error;
    const type = MessageType6.Request;
    return await ask(port, identity, { signal, type, ips, serverId });
  }
}

/** Returns addresses to a server: they are not needed, or a different host has them. */
export async function returnAddresses(
  port: Port,
  identity: Identity,
  { type, serverId, ips }: {
    readonly type:
      | typeof MessageType6.Release
      | typeof MessageType6.Decline;
    readonly serverId: Bytes;
    readonly ips: readonly Ip[];
  },
): Promise<void> {
  using limit = new JoinedSignal(RETURN_MS);
  await exchange6(port, identity, {
    signal: limit.signal,
    message: messageOf(type, identity, { ips, serverId }),
    choose: ({ type }) => type === MessageType6.Reply ? true : undefined,
  });
}

/**
 * Sends a request to which only a reply is an answer. If any server may answer, a
 * server that grants addresses takes precedence over servers that refuse.
 */
async function ask(
  port: Port,
  identity: Identity,
  { type, ips, serverId, signal }: {
    readonly type: number;
    readonly ips: readonly Ip[];
    readonly serverId?: Bytes;
    readonly signal: AbortSignal;
  },
): Promise<Grant> {
  const over = new AbortController();
  using limit = new JoinedSignal(signal, over.signal);
  let refusal: RefusedError | undefined;
  const answer = await exchange6(port, identity, {
    signal: limit.signal,
    message: messageOf(type, identity, { ips, serverId }),
    choose: (reply): Grant | RefusedError | undefined => {
      if (reply.type !== MessageType6.Reply) return undefined;
      const isOther = serverId !== undefined &&
        serverId.toHex() !== reply.serverId.toHex();
      if (isOther) return undefined;
      const grant = grantIn(reply, identity);
      const error = errorIn(reply, grant);
      if (error === undefined) return grant;
      if (serverId !== undefined) return error;
      if (refusal === undefined) {
        pause(OTHERS_MS, limit.signal).then(() => over.abort());
      }
      refusal = error instanceof NoBindingError ? error : refusal ?? error;
      return undefined;
    },
  }).finally(() => over.abort()) ?? refusal;
  if (answer === undefined) {
    throw new CniError(ErrorCode.TryAgainLater, "No DHCPv6 server answered");
  }
  if (answer instanceof RefusedError) throw answer;
  return answer;
}

function messageOf(
  type: number,
  { association: id }: Identity,
  { ips, serverId }: {
    readonly ips: readonly Ip[];
    readonly serverId?: Bytes | undefined;
  },
): { type: number; options: Option6[] } {
  const addresses = ips.map((ip): LeasedAddress => ({
    ip,
    preferred: 0,
    valid: 0,
  }));
  const isFarewell = type === MessageType6.Release ||
    type === MessageType6.Decline;
  const wanted: Option6 = [
    Code6.requestList,
    concat(WANTED.map((code) => u16be.encode(code))),
  ];
  return {
    type,
    options: [
      ...serverId === undefined ? [] : [[Code6.serverId, serverId] as const],
      [Code6.identityAssociation, encodeAssociation({ id, addresses })],
      ...isFarewell ? [] : [wanted],
    ],
  };
}

/** Returns the addresses that an answer grants to the interface; undefined without any. */
function grantIn(
  { options, serverId }: ServerMessage6,
  { association: id }: Identity,
): Grant | undefined {
  const association = options
    .filter(([code]) => code === Code6.identityAssociation)
    .map(([, value]) => decodeAssociation(value))
    .find((one) => one?.id === id);
  return association && { serverId, association, options };
}

/** Returns the error of a reply; undefined if the server does not refuse. */
function errorIn(
  reply: ServerMessage6,
  grant: Grant | undefined,
): RefusedError | undefined {
  const reason = refusalIn(reply, grant);
  if (reason !== undefined) {
    const text = `the DHCPv6 server refused the lease: ${reason}`;
    return grant?.association.status?.code === Status6.noBinding
      ? new NoBindingError(text, reply.serverId)
      : new RefusedError(text);
  }
  if (grant === undefined || hasAddress(grant)) return undefined;
  return new RefusedError("the DHCPv6 server confirmed no address");
}

/** Returns why a server refuses; undefined if it does not. */
function refusalIn(
  { options }: ServerMessage6,
  grant: Grant | undefined,
): string | undefined {
  const status = [statusIn(options), grant?.association.status]
    .find((one) => one !== undefined && one.code !== Status6.success);
  if (status === undefined) return undefined;
  const text = status.text.slice(0, MAX_REASON);
  return `status ${status.code}${text === "" ? "" : `, ${text}`}`;
}

function hasAddress({ association: { addresses } }: Grant): boolean {
  return addresses.some(({ valid }) => valid > 0);
}
