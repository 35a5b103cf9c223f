/**
 * A temporary host with containers whose ports are forwarded, and clients of
 * these ports.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { isErrno } from "../../../ffi/errno.ts";
import { Fd } from "../../../ffi/file/fd.ts";
import * as libc from "../../../ffi/libc.ts";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import {
  type Bytes,
  struct,
  u16,
  u16be,
  u32,
  u32be,
  u64,
} from "../../../net/bytes.ts";
import { Ip } from "../../../net/ip.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { portTableOf } from "./mapped_ports.ts";
import { type CallOutput, TestHosts } from "../../../testing/test_hosts.ts";
import { assertSuccess } from "../../../tests/_harness/call_outcome.ts";
import { dualStack } from "../../../tests/_harness/dual_stack.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { connectOutside } from "../../../tests/_harness/outside.ts";
import { callAs, type Who } from "../../../tests/_harness/parity.ts";
import type { Keys } from "../../../tests/_harness/plugin_scene.ts";

/** One element of `runtimeConfig.portMappings`. */
export interface GivenMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  readonly protocol?: string;
  readonly hostIP?: string;
}

/** Optional parts of an attachment. */
export interface Attaching {
  readonly containerId?: string;
  readonly sandbox?: NetNs;
  readonly ifName?: string;
  /** Keys of portmap's configuration. */
  readonly keys?: Keys;
  /** Variables of portmap's calls, such as `PATH`. */
  readonly env?: Keys;
  /** Keys of the network, such as another `name`, `type` or `ipam`. */
  readonly network?: Keys;
  /** The owner of portmap; ours if undefined. */
  readonly who?: Who;
}

/** An attached container. */
export interface Attached {
  readonly sandbox: NetNs;
  readonly containerId: string;
  /** Its IPv4 and IPv6 addresses. */
  readonly addresses: readonly string[];
  /** What ADD of portmap printed. */
  readonly added: CallOutput;
  /** Runs portmap again. */
  run(command: string, keys?: Keys, env?: Keys): Promise<CallOutput>;
  /** Runs portmap as another owner's. */
  runAs(who: Who, command: string, keys?: Keys): Promise<CallOutput>;
}

/** The host, with something outside that reaches it by `192.0.2.1`. */
export class PortScene implements Disposable {
  readonly hosts: TestHosts = TestHosts.create();
  readonly host: NetNs = this.hosts.host;
  readonly outside: NetNs = connectOutside(this.hosts);
  readonly #keys: Keys;

  /** @param keys Keys of portmap's configuration in all calls */
  constructor(keys: Keys = { backend: "nftables" }) {
    this.#keys = keys;
  }

  /** Attaches a container by ptp, without its ports. */
  async connect(
    { containerId = "test-container", sandbox = this.hosts.sandbox, ...more }:
      Attaching = {},
  ): Promise<Keys> {
    const config = {
      ...dualStack(this.hosts),
      cniVersion: "1.0.0",
      ...more.network,
    };
    const { ifName = "eth0" } = more;
    const call = { containerId, sandbox, ifName };
    const added = await this.hosts.run(config.type, "ADD", config, call);
    assertSuccess(added);
    return added.json;
  }

  /** Attaches a container and forwards its ports; fails unless that works. */
  async attach(
    portMappings: readonly GivenMapping[],
    attaching: Attaching = {},
  ): Promise<Attached> {
    const attached = await this.tryAttach(portMappings, attaching);
    assertEquals(attached.added.exitCode, 0, attached.added.stdout);
    return attached;
  }

  /** Attaches a container and forwards its ports. */
  async tryAttach(
    portMappings: readonly GivenMapping[],
    attaching: Attaching = {},
  ): Promise<Attached> {
    const { containerId = "test-container", ifName, who = "ours" } = attaching;
    const { sandbox = this.hosts.sandbox, network, keys } = attaching;
    const prevResult = await this.connect(attaching);
    const config = {
      cniVersion: "1.0.0",
      name: network?.["name"] ?? "net1",
      type: "portmap",
      ...this.#keys,
      ...keys,
      runtimeConfig: { portMappings },
      prevResult,
    };
    const runAs = (
      who: Who,
      command: string,
      keys: Keys = {},
      env: Keys = {},
    ): Promise<CallOutput> =>
      callAs(who, this.hosts, {
        type: "portmap",
        command,
        config: { ...config, ...keys },
      }, {
        containerId,
        sandbox,
        ...ifName === undefined ? {} : { ifName },
        env: { ...attaching.env, ...env } as Record<string, string>,
      });
    const ips = prevResult["ips"] as { address: string }[];
    return {
      sandbox,
      containerId,
      addresses: ips.map(({ address }) => address.split("/")[0] ?? ""),
      added: await runAs(who, "ADD"),
      run: (command, keys, env) => runAs("ours", command, keys, env),
      runAs: (who, command, keys) => runAs(who, command, keys),
    };
  }

  /** The table of nftables as `nft` shows it; "" if it does not exist. */
  get table(): string {
    return portTableOf(this.host);
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

const ADDRESS_4 = struct({ family: u16, port: u16be, ip: u32, padding: u64 });
/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_INET = 2, AF_INET6 = 10, SOCK_STREAM = 1, SOCK_DGRAM = 2;
/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_SNDTIMEO = 21;
const timeval = struct({ seconds: u64, microseconds: u64 });
/** How long a connection that is dropped somewhere may take, in seconds. */
const TIMEOUT_SECONDS = 1n;
/** How long a connection may take that must come about: a busy machine loses SYNs. */
const ACCEPT_SECONDS = 60n;

/** Encodes a `struct sockaddr_in` or `struct sockaddr_in6`. */
function sockaddr(address: string, port: number): Bytes {
  const ip = Ip.parse(address);
  const bytes = new Uint8Array(ip.family === 4 ? ADDRESS_4.size : 28);
  bytes.set(u16.encode(ip.family === 4 ? AF_INET : AF_INET6));
  bytes.set(u16be.encode(port), 2);
  bytes.set(ip.toBytes(), ip.family === 4 ? 4 : 8);
  return bytes;
}

function openSocket(netns: NetNs, address: string, type: number): Fd {
  const family = address.includes(":") ? AF_INET6 : AF_INET;
  return new Fd(inNetns(netns, () => libc.socket(family, type, 0)));
}

/** A server of TCP in a namespace. */
export class TcpServer implements Disposable {
  readonly #listener: Deno.TcpListener;

  constructor(netns: NetNs, port: number, hostname = "::") {
    this.#listener = inNetns(
      netns,
      (): never => Deno.listen({ port, hostname }) as never,
    );
  }

  /** Connects to it by way of an address, and returns the client as it sees it. */
  async clientOf(from: NetNs, address: string, port: number): Promise<string> {
    using _client = connectTcp(from, address, port, ACCEPT_SECONDS);
    using connection = await this.#listener.accept();
    const { hostname } = connection.remoteAddr as Deno.NetAddr;
    return hostname.replace("::ffff:", "");
  }

  [Symbol.dispose](): void {
    this.#listener.close();
  }
}

/**
 * Connects by TCP.
 *
 * @throws {SyscallError} ECONNREFUSED, or EINPROGRESS if nothing answers
 */
export function connectTcp(
  from: NetNs,
  address: string,
  port: number,
  seconds = TIMEOUT_SECONDS,
): Fd {
  const socket = openSocket(from, address, SOCK_STREAM);
  try {
    const value = timeval.encode({ seconds });
    const option = { level: SOL_SOCKET, name: SO_SNDTIMEO, value };
    libc.setSocketOptionBytes(socket.number, option);
    libc.connect(socket.number, sockaddr(address, port));
    return socket;
  } catch (error) {
    socket[Symbol.dispose]();
    throw error;
  }
}

/** Reports whether a port is refused or nothing answers. */
export function isClosed(from: NetNs, address: string, port: number): boolean {
  try {
    connectTcp(from, address, port)[Symbol.dispose]();
    return false;
  } catch (error) {
    if (isErrno(error, "ECONNREFUSED", "EINPROGRESS", "EHOSTUNREACH")) {
      return true;
    }
    throw error;
  }
}

/** A client of UDP that keeps its port. */
export class UdpClient implements Disposable {
  readonly #socket: Fd;

  constructor(from: NetNs, address: string, port: number) {
    this.#socket = openSocket(from, address, SOCK_DGRAM);
    libc.connect(this.#socket.number, sockaddr(address, port));
  }

  send(): void {
    try {
      libc.send(this.#socket.number, new Uint8Array([1]), 0);
    } catch (error) {
      // The answer to an earlier packet.
      if (!isErrno(error, "ECONNREFUSED")) throw error;
      libc.send(this.#socket.number, new Uint8Array([1]), 0);
    }
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

/** The first packet of SCTP, an INIT. Source: RFC 9260, section 3. */
const sctpInit = struct({
  source: u16be,
  destination: u16be,
  tag: u32be,
  checksum: u32,
  type: u16be,
  length: u16be,
  initiateTag: u32be,
  window: u32be,
  streams: u32be,
  sequence: u32be,
});
const SOCK_RAW = 3, IPPROTO_SCTP = 132, INIT = 0x100, INIT_BYTES = 20;

/** Begins an SCTP association, without the kernel's SCTP. */
export function sendSctpInit(
  from: NetNs,
  address: string,
  port: number,
): void {
  using socket = new Fd(
    inNetns(from, () => libc.socket(AF_INET, SOCK_RAW, IPPROTO_SCTP)),
  );
  libc.connect(socket.number, sockaddr(address, 0));
  const packet = {
    source: 40_000,
    destination: port,
    type: INIT,
    length: INIT_BYTES,
    initiateTag: 1,
    window: 65_536,
    streams: 0x0001_0001,
    sequence: 1,
  };
  const checksum = crc32c(sctpInit.encode(packet));
  libc.send(socket.number, sctpInit.encode({ ...packet, checksum }), 0);
}

/** Source: RFC 9260, appendix A. */
function crc32c(bytes: Bytes): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) {
      crc = crc & 1 ? crc >>> 1 ^ 0x82f6_3b78 : crc >>> 1;
    }
  }
  return ~crc >>> 0;
}

/** Counts packets to a port of a container, which takes them without an answer. */
export class PacketCounter {
  readonly #netns: NetNs;

  constructor(netns: NetNs, port: number, protocol = "udp") {
    this.#netns = netns;
    const commands = `add table inet count
add chain inet count in { type filter hook input priority 0; }
add rule inet count in ${protocol} dport ${port} counter drop`;
    for (const command of commands.split("\n")) runIn(netns, "nft", command);
  }

  /** Waits until it has counted so many. */
  async reaches(packets: number): Promise<void> {
    await eventually(
      `${packets} packets arrive`,
      () => this.packets >= packets,
    );
  }

  get packets(): number {
    const text = runIn(this.#netns, "nft", "list", "table", "inet", "count");
    return Number(/packets (\d+)/.exec(text)?.[1]);
  }
}
