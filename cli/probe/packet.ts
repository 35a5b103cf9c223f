/**
 * Sends one packet of a probe from a namespace, and waits for the answer.
 *
 * @module
 */

import { isErrno, SyscallError } from "../../ffi/errno.ts";
import { waitReadable } from "../../ffi/libc.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { type Flow, IpProtocol } from "../../ffi/nftables/trace.ts";
import { type IcmpError, IcmpErrorSocket } from "./icmp_errors.ts";
import { ArpSocket } from "../../ffi/socket/arp_socket.ts";
import { EchoSocket } from "./echo_socket.ts";
import { TcpSocket } from "../../ffi/socket/tcp.ts";
import { UdpSocket } from "../../ffi/socket/udp_socket.ts";
import { type Bytes, viewOf } from "../../net/bytes.ts";
import type { Ip } from "../../net/ip.ts";
import type { Mac } from "../../net/mac.ts";

/** The sender of a packet. */
export interface PacketOrigin {
  /** The name in texts: `default/web eth0`, or `the node`. */
  readonly name: string;
  readonly netns: NetNs;
  /** The sender's address. */
  readonly source: Ip;
}

/** A packet to send. */
export interface Probe {
  readonly from: PacketOrigin;
  /** The destination's name in texts: `the gateway`, or `default/db eth0`. */
  readonly to: string;
  readonly destination: Ip;
  readonly protocol: "ping" | "tcp" | "udp" | "dns" | "arp";
  /** The link of an ARP request. */
  readonly link?: { readonly index: number; readonly mac: Mac } | undefined;
  /** Undefined for pings. */
  readonly port?: number | undefined;
  /** Length of the whole packet, which is not fragmented; pings only. */
  readonly length?: number | undefined;
}

/** The answer to a probe, or its absence. */
export interface Answer {
  /** Whether the destination answered; a refusal by its kernel is an answer. */
  readonly isReached: boolean;
  /** Why the packet was not sent, or who refused it; undefined if unknown. */
  readonly error: string | undefined;
  /** The error that a router or host reported. */
  readonly icmp: IcmpError | undefined;
  readonly milliseconds: number;
}

/** The port of the discard service, which usually no program uses. Source: RFC 863. */
export const DISCARD_PORT = 9;
export const DNS_PORT = 53;
/** Source ports above the kernel's default range. */
const FIRST_PORT = 61_000, PORTS = 4_500, PORT_ATTEMPTS = 8;
/** Lengths of packets with IP headers, as the kernel builds them. */
const SYN_BYTES = { 4: 60, 6: 80 } as const;
const IP_UDP_BYTES = { 4: 28, 6: 48 } as const;
const IP_ECHO_BYTES = { 4: 28, 6: 48 } as const;
/** Length of a datagram's payload: unusual, so that the packet can be recognized. */
const DATAGRAM_BYTES = 37;

/** An open socket for a probe. Its flow is known before a packet is sent. */
export interface Opened extends Disposable {
  readonly flow: Flow;
  /** Length of its packets with the IP header. */
  readonly length: number;
  /** The descriptor's number. */
  readonly fd: number;
  /** @throws {SyscallError} If the sender's kernel refuses the packet */
  send(): void;
  /**
   * Reports whether the destination has answered.
   *
   * @throws {SyscallError} ECONNREFUSED, EHOSTUNREACH
   */
  hasAnswer(): boolean;
}

/**
 * Opens a socket.
 *
 * @throws {SyscallError} If there is no route, or the sender lacks its address
 */
function open(probe: Probe): Opened {
  for (let left = PORT_ATTEMPTS;; left--) {
    try {
      return openOnce(probe);
    } catch (error) {
      // A different socket uses the port, or has just used it.
      if (left === 0 || !isErrno(error, "EADDRINUSE")) throw error;
    }
  }
}

function openOnce(probe: Probe): Opened {
  const { from: { netns, source }, destination, protocol } = probe;
  const { family } = source;
  if (protocol === "ping") {
    // Odd: few other packets have such a length.
    const length = probe.length ??
      IP_ECHO_BYTES[family] + 2 * random(200) + 201;
    const socket = EchoSocket.open(netns, { destination, source, length });
    const flow = {
      protocol: family === 4 ? IpProtocol.icmp : IpProtocol.icmp6,
      source,
      id: socket.id,
    };
    return opened(socket, flow, length, () => socket.hasReply());
  }
  if (protocol === "arp") return openArp(probe);
  const from = { source, port: FIRST_PORT + random(PORTS) };
  const { port = protocol === "dns" ? DNS_PORT : DISCARD_PORT } = probe;
  if (protocol === "tcp") {
    const socket = new TcpSocket(netns, destination, port, from);
    const flow = { protocol: IpProtocol.tcp, source, id: from.port };
    const connect = (): boolean => socket.isConnected();
    const sender = { fd: socket.fd, send: connect };
    return {
      ...opened(sender, flow, SYN_BYTES[family], connect),
      [Symbol.dispose]: () => socket[Symbol.dispose](),
    };
  }
  const socket = new UdpSocket(netns, destination, port, from);
  const flow = { protocol: IpProtocol.udp, source, id: from.port };
  const question = port === DNS_PORT
    ? encodeQuestion()
    : new Uint8Array(DATAGRAM_BYTES);
  const length = IP_UDP_BYTES[family] + question.length;
  const sender = { fd: socket.fd, send: () => socket.send(question) };
  return {
    ...opened(sender, flow, length, () => {
      const answer = socket.receive();
      return answer !== undefined &&
        (protocol === "udp" || isAnswer(answer, question));
    }),
    [Symbol.dispose]: () => socket[Symbol.dispose](),
  };
}

/** Length of an ARP request. Source: RFC 826. */
const ARP_BYTES = 28;

function openArp({ from, destination, link }: Probe): Opened {
  if (link === undefined) {
    throw new Error("Cannot send ARP requests without a link");
  }
  const socket = new ArpSocket(from.netns, link);
  const ask = {
    fd: socket.fd,
    send: () => socket.ask(destination, from.source),
  };
  // No IP packet has this protocol and identifier.
  const flow = { protocol: 0, source: from.source, id: 0 };
  return {
    ...opened(
      ask,
      flow,
      ARP_BYTES,
      () => socket.receive().some(({ ip }) => ip.equals(destination)),
    ),
    [Symbol.dispose]: () => socket[Symbol.dispose](),
  };
}

function opened(
  socket: { readonly fd: number; send(): unknown } & Partial<Disposable>,
  flow: Flow,
  length: number,
  hasAnswer: () => boolean,
): Opened {
  return {
    flow,
    length,
    fd: socket.fd,
    send: () => void socket.send(),
    hasAnswer,
    [Symbol.dispose]: () => socket[Symbol.dispose]?.(),
  };
}

function random(below: number): number {
  const [value = 0] = crypto.getRandomValues(new Uint32Array(1));
  return value % below;
}

/** Functions to call while a packet is sent. */
export interface Hooks {
  /** Awaited before the packet is sent. */
  readonly onOpened?: (opened: Opened) => void | Promise<void>;
  /** Called immediately before each transmission. */
  readonly onSend?: () => void;
  /** Called if no answer arrives soon, before the packet is sent a second time. */
  readonly onSilence?: (opened: Opened) => void;
}

/**
 * Sends a probe, and waits for the answer.
 *
 * @throws {Error} What the hooks throw
 */
export async function send(
  probe: Probe,
  waitMs: number,
  { onOpened, onSend, onSilence }: Hooks = {},
): Promise<Answer> {
  let start = performance.now();
  const answer = (
    isReached: boolean,
    error?: string,
    icmp?: IcmpError,
  ): Answer => ({
    isReached,
    error,
    icmp,
    milliseconds: Math.round((performance.now() - start) * 10) / 10,
  });
  const { from: { netns, source }, protocol } = probe;
  using errors = new IcmpErrorSocket(netns, source.family);
  let flow: Flow | undefined;
  const reported = (): IcmpError | undefined =>
    errors.receive().find((one) =>
      one.id === flow?.id && one.protocol === flow.protocol
    );
  try {
    using socket = open(probe);
    flow = socket.flow;
    await onOpened?.(socket);
    start = performance.now();
    onSend?.();
    socket.send();
    let isFirst = true;
    for (let left = waitMs; left > 0;) {
      if (socket.hasAnswer()) return answer(true);
      const icmp = reported();
      if (icmp !== undefined) return answerTo(icmp, probe, answer);
      const before = performance.now();
      await waitReadable(socket.fd, Math.min(Math.ceil(left), LOOK_MS));
      // A loaded machine returns late, and did not run the destination either.
      left -= Math.min(performance.now() - before, LOOK_MS);
      if (isFirst && onSilence !== undefined && !socket.hasAnswer()) {
        onSilence(socket);
        onSend?.();
        socket.send();
      }
      isFirst = false;
    }
    if (socket.hasAnswer()) return answer(true);
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    const icmp = reported();
    if (icmp !== undefined) return answerTo(icmp, probe, answer);
    // The destination's kernel answers that nothing listens on the port.
    if (isErrno(error, "ECONNREFUSED", "ECONNRESET")) {
      return answer(protocol !== "dns", UNSERVED);
    }
    return answer(false, explain(error));
  }
  return answer(false);
}

/** The error of a probe that its destination refused. */
export const UNSERVED = "nothing listens on this port";

/** How often to check for an answer, in ms. */
const LOOK_MS = 20;

/** Makes an answer of an ICMP error, which counts as reached only if the destination sent it. */
function answerTo(
  icmp: IcmpError,
  { destination, protocol }: Probe,
  answer: (isReached: boolean, error?: string, icmp?: IcmpError) => Answer,
): Answer {
  const isAnswer = icmp.isOfPort && icmp.sender.equals(destination) &&
    protocol === "udp";
  return answer(isAnswer, `${icmp.text}, reported by ${icmp.sender}`, icmp);
}

function explain(error: SyscallError): string {
  if (isErrno(error, "ENETUNREACH")) return "no route in the namespace";
  if (isErrno(error, "EHOSTUNREACH")) return "the next hop does not answer";
  if (isErrno(error, "EPERM")) return "refused by the sender's rules";
  if (isErrno(error, "EADDRNOTAVAIL")) return "the sender lacks its address";
  if (isErrno(error, "EMSGSIZE")) return "larger than the link's MTU";
  return error.message;
}

/** Where the flags of a message are, and the bit of answers. Source: RFC 1035. */
const FLAGS_AT = 2, IS_ANSWER = 0x8000;

/** A question for `. IN NS`, with recursion. Source: RFC 1035, section 4.1. */
function encodeQuestion(): Bytes {
  const id = crypto.getRandomValues(new Uint8Array(2));
  const rest = [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
  return new Uint8Array([...id, ...rest]);
}

function isAnswer(answer: Bytes, question: Bytes): boolean {
  return answer.length >= FLAGS_AT + 2 && answer[0] === question[0] &&
    answer[1] === question[1] &&
    (viewOf(answer).getUint16(FLAGS_AT) & IS_ANSWER) !== 0;
}

/** Describes a probe in texts: `ping`, `TCP port 80`, `ping of 1500 bytes`. */
export function describeProbe({ protocol, port, length }: Probe): string {
  if (protocol === "ping") {
    return length === undefined ? "ping" : `ping of ${length} bytes`;
  }
  if (protocol === "dns") return "a DNS query";
  if (protocol === "arp") return "an ARP request";
  return `${protocol.toUpperCase()} port ${port ?? DISCARD_PORT}`;
}
