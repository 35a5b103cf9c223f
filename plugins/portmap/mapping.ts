/**
 * Port mappings: what an attachment wants, and what the kernel forwards.
 *
 * @module
 */

import { CniError, ErrorCode, invalidConfig } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import type { Cidr } from "../../net/cidr.ts";
import { type Ip, type IpFamily } from "../../net/ip.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import type { Attachment } from "../../cni/config/types.ts";
import type {
  BackendName,
  GivenMapping,
  PortmapConfig,
  Protocol,
} from "./schema.ts";

/** A port of the host, and the container's port that it leads to. */
export interface Mapping {
  readonly protocol: Protocol;
  readonly hostPort: number;
  readonly containerPort: number;
  /**
   * The host's address; undefined for all addresses of both families, and an
   * unspecified address (`0.0.0.0`, `::`) for all of its family.
   */
  readonly hostIp: Ip | undefined;
}

/** Everything that an attachment wants, for both families. */
export interface Forwarding {
  readonly owner: Attachment;
  /** CNI_NETNS, which shows whether the owner is alive. */
  readonly netns: string;
  /**
   * The container's first address of each family that it has, with the length
   * of its subnet's prefix.
   */
  readonly addresses: readonly Cidr[];
  /** At least one. Mappings of a family without an address are ignored. */
  readonly mappings: readonly Mapping[];
  /** Whether to masquerade what could not return otherwise. */
  readonly snat: boolean;
  /** Whether to masquerade all connections to the ports. */
  readonly masqAll: boolean;
  /** The bit of the packet mark that iptables uses, from 0 to 31. */
  readonly markMasqBit: number;
  /** The chain of iptables that marks packets instead. */
  readonly externalSetMarkChain: string | undefined;
  /** Words of iptables or nft that packets must also match. */
  readonly conditions: Readonly<Record<IpFamily, readonly string[]>>;
}

/** A port of the host that is or was forwarded. */
export interface ForwardedPort {
  readonly protocol: Protocol;
  readonly hostPort: number;
  /** The host's address; undefined for all of the target's family. */
  readonly hostIp: Ip | undefined;
  /** The container's address. */
  readonly target: Ip;
  readonly targetPort: number;
}

/** Source: include/uapi/linux/in.h `IPPROTO_*`. */
export const PROTOCOLS: Readonly<Record<Protocol, number>> = {
  tcp: 6,
  udp: 17,
  sctp: 132,
};

/** The chain of iptables that leads to the containers' chains. */
export const IPTABLES_HOSTPORTS = "CNI-HOSTPORT-DNAT";

/** The mark bit of the Go plugin. Kubernetes uses 14 and 15, Calico 20 to 31. */
const DEFAULT_MARK_BIT = 13;

/** Lists the ports that an attachment wants forwarded, of both families. */
export function portsOf(
  { addresses, mappings }: Pick<Forwarding, "addresses" | "mappings">,
): ForwardedPort[] {
  return addresses.flatMap(({ ip: target, family }) =>
    mappings.filter(({ hostIp }) => (hostIp?.family ?? family) === family)
      .map(({ protocol, hostPort, containerPort, hostIp }) => ({
        protocol,
        hostPort,
        hostIp: hostIp?.isUnspecified ? undefined : hostIp,
        target,
        targetPort: containerPort,
      }))
  );
}

/**
 * Reports whether two mappings are of the same port of the same addresses: only one
 * container can have it. A port of one address takes precedence over the same port
 * of all addresses, so these are two.
 */
export function isSameHostPort(
  port: ForwardedPort,
): (one: ForwardedPort) => boolean {
  return ({ protocol, hostPort, hostIp, target }) =>
    protocol === port.protocol && hostPort === port.hostPort &&
    String(hostIp) === String(port.hostIp) &&
    target.family === port.target.family;
}

/**
 * Returns what the attachment of a call wants; undefined if it wants no port.
 *
 * @throws {CniError} 7 if a key has a value that cannot be used
 */
export function forwardingOf(
  call: Pick<Call<PortmapConfig>, "config" | "network" | "args">,
  prevResult: Result,
): Forwarding | undefined {
  const { config, args } = call;
  refuseContradictions(config);
  const mappings = mappingsOf(config);
  const addresses = firstAddressesOf(prevResult, args.ifName);
  if (portsOf({ addresses, mappings }).length === 0) return undefined;
  return {
    owner: attachmentOf(call),
    netns: args.netns,
    addresses,
    mappings,
    snat: config.snat ?? true,
    masqAll: config.masqAll ?? false,
    markMasqBit: config.markMasqBit ?? DEFAULT_MARK_BIT,
    externalSetMarkChain: config.externalSetMarkChain,
    conditions: { 4: config.conditionsV4 ?? [], 6: config.conditionsV6 ?? [] },
  };
}

/**
 * Lists the container's first address of each family. Addresses of interfaces
 * outside the sandbox or with another name are skipped.
 *
 * Source: containernetworking/plugins plugins/meta/portmap/main.go
 * `parseConfig`.
 */
export function firstAddressesOf(
  { ips, interfaces }: Result,
  ifName: string,
): Cidr[] {
  const own = ips.filter(({ interface: index }) => {
    const named = index === undefined ? undefined : interfaces[index];
    return named === undefined || named.name === ifName && named.sandbox;
  }).map(({ address }) => address);
  return ([4, 6] as const).flatMap((wanted) =>
    own.find(({ family }) => family === wanted) ?? []
  );
}

/** @throws {CniError} 7 if a mapping cannot be made */
function mappingsOf({ runtimeConfig }: PortmapConfig): Mapping[] {
  return (runtimeConfig?.portMappings ?? []).map(toMapping);
}

/**
 * Returns what an element of `portMappings` asks for.
 *
 * @throws {CniError} 7 if a port is out of range
 */
export function toMapping(
  { protocol = "tcp", hostPort = 0, containerPort = 0, hostIP }: GivenMapping,
): Mapping {
  for (const [what, port] of Object.entries({ containerPort, hostPort })) {
    if (port > 0 && port <= 0xffff) continue;
    const name = what === "hostPort" ? "host" : "container";
    throw invalidConfig(`Invalid ${name} port number: ${port}`);
  }
  return { protocol, hostPort, containerPort, hostIp: hostIP };
}

/** @throws {CniError} 7 if two keys contradict each other */
function refuseContradictions(config: PortmapConfig): void {
  const { backend, markMasqBit, externalSetMarkChain } = config;
  if (markMasqBit !== undefined && externalSetMarkChain !== undefined) {
    throw invalidConfig("Cannot specify externalSetMarkChain and markMasqBit");
  }
  if (backend !== undefined) refuseForeignOptions(backend, config);
}

/**
 * Refuses keys that only the other backend understands.
 *
 * Source: containernetworking/plugins plugins/meta/portmap/main.go
 * `ensureBackend`, with its text.
 *
 * @throws {CniError} 7 if there is such a key
 */
export function refuseForeignOptions(
  backend: BackendName,
  config: PortmapConfig,
): void {
  const other = backend === "iptables" ? "nftables" : "iptables";
  const foreign = [
    ["externalSetMarkChain", config.externalSetMarkChain && "iptables"],
    ["conditionsV4", syntaxOf(config.conditionsV4)],
    ["conditionsV6", syntaxOf(config.conditionsV6)],
  ].filter(([, needed]) => needed === other).map(([key]) => key);
  if (foreign.length > 0) {
    throw invalidConfig(
      `${backend} backend was requested but configuration contains ` +
        `${other}-specific options [${foreign.join(" ")}]`,
    );
  }
  if (backend === "nftables") refuseStatements(config);
}

/** nft would run what follows a separator, such as `include`, as a command of its own. */
function refuseStatements(
  { conditionsV4 = [], conditionsV6 = [] }: PortmapConfig,
): void {
  const texts = { conditionsV4, conditionsV6 };
  for (const [key, words] of Object.entries(texts)) {
    if (!words.some((word) => /[;\r\n]/.test(word))) continue;
    throw invalidConfig(
      `${key}: a condition may not contain ";" or a line break`,
    );
  }
}

/**
 * Conditions of iptables begin with an option or `!`, conditions of nft never.
 */
function syntaxOf([first]: readonly string[] = []): BackendName | undefined {
  if (!first) return undefined;
  return /^[-!]/.test(first) ? "iptables" : "nftables";
}

/** A container that has a port which another one wants. */
export interface TakenPort {
  readonly port: ForwardedPort;
  /** Its network, interface and ID, as far as they are known. */
  readonly owner: string;
}

/** Returns the error of an ADD that wants the port of a living container. */
export function takenPort({ port, owner }: TakenPort): CniError {
  return new CniError(
    ErrorCode.TryAgainLater,
    `Host port ${describePort(port)} is taken by another container`,
    { details: `${owner}, address: ${port.target}` },
  );
}

/** Describes a port of the host to people. */
export function describePort(
  { hostIp, hostPort, protocol }: ForwardedPort,
): string {
  const of = hostIp === undefined ? "" : ` of ${hostIp}`;
  return `${hostPort}/${protocol}${of}`;
}
