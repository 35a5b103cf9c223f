/**
 * A container's link, as a DHCP client uses it.
 *
 * @module
 */

import { JoinedSignal, waitUntil } from "../../base/deadline.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { PacketSocket } from "../../ffi/socket/packet_socket.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import type { Events } from "../../base/service/events.ts";
import {
  type ClientMessage,
  decodeMessage,
  encodeMessage,
  type ServerMessage,
} from "../../net/dhcp/message.ts";

/** Source: RFC 2131, section 4.1. */
const SERVER_PORT = 67, CLIENT_PORT = 68;

const EVERYBODY = {
  mac: Mac.parse("ff:ff:ff:ff:ff:ff"),
  ip: Ip.parse("255.255.255.255"),
};
const NO_ADDRESS = Ip.parse("0.0.0.0");

/**
 * Time until a message is sent again, in ms; it doubles each time. It starts short,
 * because a link that has just come up, such as a bridge port, can lose the first
 * message.
 */
const RESEND_MS = 250;

/** A server, or a relay before it. */
export interface Server {
  readonly mac: Mac;
  readonly ip: Ip;
}

/** An answer, and where it came from. */
export interface Reply extends ServerMessage {
  readonly serverMac: Mac;
}

/** A message, without the fields that the port adds. */
export type Sent = Omit<ClientMessage, "mac" | "transaction">;

/** An open link. */
export class Port implements Disposable {
  readonly #rtnl: Rtnl;
  readonly #events: Events;
  /** Device and inode of its namespace. */
  readonly netnsId: string;
  /** The link, as it was when the port was opened. */
  readonly link: Link;

  private constructor(
    rtnl: Rtnl,
    { link, netnsId, events }: { link: Link; netnsId: string; events: Events },
  ) {
    this.#rtnl = rtnl;
    this.#events = events;
    this.link = link;
    this.netnsId = netnsId;
  }

  /**
   * Opens a link.
   *
   * @returns Undefined if the namespace or the link does not exist
   * @throws {SyscallError} If the namespace cannot be entered
   */
  static open(
    netns: string,
    ifName: string,
    events: Events,
  ): Port | undefined {
    try {
      using stack = new DisposableStack();
      const rtnl = stack.use(Rtnl.open(netns));
      // Of what was opened: the path might already lead to a different
      // namespace.
      const netnsId = findFileId(`/proc/thread-self/fd/${rtnl.netns.fd}`);
      const link = rtnl.link.find(ifName);
      if (netnsId === undefined || link === undefined) return undefined;
      stack.move();
      return new Port(rtnl, { link, netnsId, events });
    } catch (error) {
      if (isMissingNetns(error)) return undefined;
      throw error;
    }
  }

  /** Its namespace's links, addresses and routes. */
  get rtnl(): Rtnl {
    return this.#rtnl;
  }

  /** The daemon's loop, for sockets on the link. */
  get events(): Events {
    return this.#events;
  }

  /** Brings the link up or down. */
  setUp(isUp: boolean): void {
    this.#rtnl.link.set(this.link.index, { isUp });
  }

  /** Sends a message that servers do not answer. */
  send(message: Sent, server?: Server): void {
    using socket = this.#openSocket();
    this.#send(socket, { ...message, transaction: newTransaction() }, server);
  }

  /**
   * Sends a message, again and again, until there is an answer.
   *
   * @param choose Returns the wanted part of an answer; otherwise undefined
   * @param server Undefined for all
   * @returns Undefined if no answer came until the signal
   */
  async exchange<T>(
    message: Sent,
    choose: (reply: Reply) => T | undefined,
    { signal, server, transaction = newTransaction() }: {
      readonly signal: AbortSignal;
      readonly server?: Server | undefined;
      readonly transaction?: number;
    },
  ): Promise<T | undefined> {
    using socket = this.#openSocket();
    return await sendUntilAnswered(this.#events, socket.fd, {
      send: () => this.#send(socket, { ...message, transaction }, server),
      receive: () => this.#receive(socket, transaction, choose),
      signal,
    });
  }

  #openSocket(): PacketSocket {
    const { index: ifindex } = this.link;
    return PacketSocket.open(this.#rtnl.netns, { ifindex, port: CLIENT_PORT });
  }

  get #mac(): Mac {
    const { mac, name } = this.link;
    if (mac === undefined) throw new Error(`"${name}" has no MAC address`);
    return mac;
  }

  #send(
    socket: PacketSocket,
    message: Sent & { readonly transaction: number },
    server: Server = EVERYBODY,
  ): void {
    const mac = this.#mac;
    socket.send({
      source: {
        mac,
        ip: message.clientAddress ?? NO_ADDRESS,
        port: CLIENT_PORT,
      },
      destination: { ...server, port: SERVER_PORT },
      payload: encodeMessage({ ...message, mac }),
    });
  }

  #receive<T>(
    socket: PacketSocket,
    transaction: number,
    choose: (reply: Reply) => T | undefined,
  ): T | undefined {
    for (const datagram of receiveUnlessDown(socket)) {
      const message = decodeMessage(datagram.payload, this.#mac);
      if (message?.transaction !== transaction) continue;
      const serverMac = datagram.source.mac;
      const chosen = choose({ ...message, serverMac });
      if (chosen !== undefined) return chosen;
    }
    return undefined;
  }

  /** Closes it. A second call does nothing. */
  [Symbol.dispose](): void {
    this.#rtnl[Symbol.dispose]();
  }
}

/**
 * Sends a message, again and again, until there is an answer.
 *
 * @param fd The socket's, which becomes readable when an answer arrives
 * @returns What `receive` returned first; undefined if nothing until the signal
 */
export async function sendUntilAnswered<T>(
  events: Events,
  fd: number,
  { send, receive, signal }: {
    readonly send: () => void;
    /** Returns the first wanted answer among the received packets, if any. */
    readonly receive: () => T | undefined;
    readonly signal: AbortSignal;
  },
): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<T>();
  events.add(fd, () => {
    const chosen = receive();
    if (chosen !== undefined) resolve(chosen);
  });
  try {
    for (let ms = RESEND_MS; !signal.aborted; ms *= 2) {
      send();
      using limit = new JoinedSignal(ms, signal);
      const chosen = await waitUntil(promise, limit.signal);
      if (chosen !== undefined) return chosen;
    }
    return undefined;
  } finally {
    events.remove(fd);
  }
}

/** Sending reports a link that is down. */
function* receiveUnlessDown(
  socket: PacketSocket,
): ReturnType<PacketSocket["receive"]> {
  try {
    yield* socket.receive();
  } catch {
    // The next check receives later packets.
  }
}

/** Draws the transaction ID of a request and its answers. */
export function newTransaction(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
}
