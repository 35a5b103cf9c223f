/**
 * Exchanges with DHCPv6 servers over a container's link.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { pollUntil } from "../../base/waiting.ts";
import { readTogether } from "../../ffi/libc.ts";
import { LinkUdpSocket } from "../../ffi/socket/link_udp_socket.ts";
import { type Bytes, concat, u16be, u32be } from "../../net/bytes.ts";
import {
  decodeMessage6,
  encodeMessage6,
  newTransaction6,
  type ServerMessage6,
} from "../../net/dhcp/message6.ts";
import { Code6, type Option6 } from "../../net/dhcp/options6.ts";
import { Ip } from "../../net/ip.ts";
import { sha512 } from "../../base/process/sha512.ts";
import type { Attachment } from "../../cni/config/types.ts";
import { type Port, sendUntilAnswered } from "./port.ts";

/** Source: RFC 8415, sections 7.1 and 7.2. */
const ALL_SERVERS = Ip.parse("ff02::1:2"), SERVER_PORT = 547, CLIENT_PORT = 546;

/** DUID-UUID. Source: RFC 6355, section 4. */
const DUID_UUID = 4, UUID_BYTES = 16;

/** Who a client is, and for which interface it asks. */
export interface Identity {
  /** The container's identifier (DUID). */
  readonly clientId: Bytes;
  /** The number of the interface's addresses (IAID). */
  readonly association: number;
}

/**
 * Derives the identity of an interface, which does not change as long as the container
 * does, whatever happens to the daemon and the link.
 */
export async function identityOf(
  { containerId, network, ifName }: Attachment,
): Promise<Identity> {
  const bytesOf = async (text: string): Promise<Bytes> =>
    Uint8Array.fromHex(await sha512(text));
  const uuid = (await bytesOf(containerId)).slice(0, UUID_BYTES);
  const number = (await bytesOf(`${network}/${ifName}`)).subarray(0, 4);
  // Version 8, and the variant. Source: RFC 9562, section 5.8.
  uuid[6] = (uuid[6] ?? 0) & 0x0f | 0x80;
  uuid[8] = (uuid[8] ?? 0) & 0x3f | 0x80;
  return {
    clientId: concat([u16be.encode(DUID_UUID), uuid]),
    association: u32be.decode(number),
  };
}

/** A message, without the fields that the exchange adds. */
export interface Sent6 {
  readonly type: number;
  readonly options: readonly Option6[];
}

/**
 * Sends a message to all servers, again and again, until there is an answer.
 *
 * @param choose Returns the wanted part of an answer; otherwise undefined
 * @returns Undefined if no answer came until the signal
 * @throws {CniError} 11 if the link has no address from which to ask
 */
export async function exchange6<T>(
  port: Port,
  { clientId }: Identity,
  { message: { type, options }, choose, signal }: {
    readonly message: Sent6;
    readonly choose: (reply: ServerMessage6) => T | undefined;
    readonly signal: AbortSignal;
  },
): Promise<T | undefined> {
  const source = await linkLocalOf(port, signal);
  const ifindex = port.link.index;
  using socket = new LinkUdpSocket(port.rtnl.netns, {
    ifindex,
    source,
    port: CLIENT_PORT,
  });
  const transaction = newTransaction6();
  const startMs = performance.now();
  return await sendUntilAnswered(port.events, socket.fd, {
    send: () => {
      const elapsed = Math.min((performance.now() - startMs) / 10, 0xffff);
      const datagram = encodeMessage6({
        type,
        transaction,
        options: [
          [Code6.clientId, clientId],
          [Code6.elapsedTime, u16be.encode(Math.floor(elapsed))],
          ...options,
        ],
      });
      socket.send(ALL_SERVERS, SERVER_PORT, datagram);
    },
    receive: () => {
      for (const bytes of readTogether(() => receiveUnlessDown(socket))) {
        const reply = decodeMessage6(bytes, clientId);
        if (reply?.transaction !== transaction) continue;
        const chosen = choose(reply);
        if (chosen !== undefined) return chosen;
      }
      return undefined;
    },
    signal,
  });
}

/** Sending reports a link that is down. */
function receiveUnlessDown(socket: LinkUdpSocket): Bytes | undefined {
  try {
    return socket.receive();
  } catch {
    return undefined;
  }
}

/** Waits for a link-local address that is no longer checked for duplicates. */
async function linkLocalOf(
  { rtnl, link: { index: ifindex, name } }: Port,
  signal: AbortSignal,
): Promise<Ip> {
  return await pollUntil(
    () =>
      rtnl.address.list({ ifindex, family: 6 })
        .find(({ address: { ip }, isTentative, hasDadFailed }) =>
          ip.isLinkLocal && !isTentative && !hasDadFailed
        )?.address.ip,
    {
      signal,
      giveUp: () =>
        new CniError(
          ErrorCode.TryAgainLater,
          `"${name}" has no usable link-local address`,
          { details: "it has no carrier, or another host has the address" },
        ),
    },
  );
}
