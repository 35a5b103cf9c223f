/**
 * dhcp for tools: the leases of its daemon.
 *
 * @module
 */

import { CniError } from "../../base/error.ts";
import { findValue, type JsonObject } from "../../base/json/json.ts";
import { Options } from "../../net/dhcp/options.ts";
import { ask, DEFAULT_DHCP_SOCKET } from "./ask.ts";
import { protocolOf } from "./kept_lease.ts";
import type { Attachment } from "../../cni/config/types.ts";
import type { Lease, LeaseFamily } from "./lease.ts";
import { LeaseDirectory } from "./lease_directory.ts";
import { ipamOf, ipamTypeOf } from "../../cni/config/ipam.ts";

export { DEFAULT_DHCP_SOCKET };

/** A lease that the daemon keeps. */
export interface LeaseState {
  readonly family: LeaseFamily;
  readonly address: string;
  /** The server's IPv4 address; of DHCPv6 its identifier (DUID), in hexadecimal. */
  readonly server: string;
  /** The routers that an IPv4 server has named. */
  readonly routers: readonly string[];
  /** Whether the container no longer has the address. */
  readonly isLost: boolean;
  /** Whether any server may answer, because the granting server has not (T2). */
  readonly isRebinding: boolean;
  /** How long it is still valid, in seconds. */
  readonly leftSeconds: number;
}

/**
 * Returns the path of the daemon's socket.
 *
 * @param plugin A plugin's configuration
 * @returns Undefined if dhcp is not its IPAM plugin
 */
export function findDhcpSocket(plugin: JsonObject): string | undefined {
  if (ipamTypeOf(plugin) !== "dhcp") return undefined;
  const daemonSocketPath = findValue(ipamOf(plugin), "daemonSocketPath");
  return typeof daemonSocketPath === "string" && daemonSocketPath !== ""
    ? daemonSocketPath
    : DEFAULT_DHCP_SOCKET;
}

/** Returns the directory of the leases of the daemon at a socket. */
export function leaseDirectoryOf(socket: string): string {
  return new LeaseDirectory(socket).path;
}

/**
 * Finds the leases of an interface, of both address families.
 *
 * @param plugin The plugin's configuration
 * @returns None if dhcp is not its IPAM plugin, or the leases cannot be read
 */
export async function findLeases(
  plugin: JsonObject,
  { network, containerId, ifName }: Attachment,
): Promise<LeaseState[]> {
  const socket = findDhcpSocket(plugin);
  if (socket === undefined) return [];
  const directory = new LeaseDirectory(socket);
  const found = await Promise.all(
    ([4, 6] as const).map((family) =>
      directory.find({ network, containerId, ifName, family })
    ),
  );
  return found.flatMap((lease) => lease ? [describe(lease)] : []);
}

function describe(lease: Lease): LeaseState {
  const { age, rebinding, expiry } = protocolOf(lease).timesOf(lease);
  const options = lease.family === 6 ? undefined : Options.fromJSON(lease.ack);
  return {
    family: lease.family ?? 4,
    address: lease.address,
    server: lease.family === 6
      ? lease.serverId
      : `${options?.get("serverId") ?? ""}`,
    routers: (options?.get("routers") ?? []).map(String),
    isLost: lease.isLost === true,
    isRebinding: age >= rebinding,
    leftSeconds: Math.max(0, Math.floor(expiry - age)),
  };
}

/** How long to wait for the daemon, in ms. */
const LIMIT_MS = 2000;

/** Returns why no daemon answers at a socket; undefined if a daemon answers. */
export async function findDaemonProblem(
  socket: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    await ask(socket, { command: "STATUS" }, signal, LIMIT_MS);
    return undefined;
  } catch (error) {
    if (error instanceof CniError) return error.message;
    throw error;
  }
}
