/**
 * Leases, and the content of their files: `<container ID>\r\n<interface>`, or only the
 * container ID if a very old plugin wrote the lease.
 *
 * A persistent lease, of the name of a pod instead of a container, is a symbolic
 * link to `stay/<namespace>/<pod>/<interface>`, which does not exist. To the Go
 * plugin, the address is taken, because its name is there; no DEL of a
 * container releases the lease, because nothing can be read; and GC looks at
 * regular files only. The lease's time begins when the link is created.
 *
 * An address that is set aside, because another machine has it, is such a link to
 * `conflict/<MAC>`.
 *
 * Source: containernetworking/plugins
 * plugins/ipam/host-local/backend/disk/backend.go.
 *
 * @module
 */

import type { AttachmentId } from "../../cni/config/types.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import type { Mac } from "../../net/mac.ts";

/** A lease. */
export interface Lease {
  readonly ip: Ip;
  /** Path of the file. */
  readonly path: string;
  /** The owner as written, without surrounding blanks. */
  readonly content: string;
}

/** A lease, and when it was written. */
export interface DatedLease extends Lease {
  /** In ms since 1970. */
  readonly writtenMs: number;
}

const SEPARATOR = "\r\n";
/** An editor or a backup might have changed the line end. */
const LINE_END = /\r?\n/;

/** Formats the content of an owner's leases. */
export function formatOwner({ containerId, ifName }: AttachmentId): string {
  return `${formatContainer(containerId)}${SEPARATOR}${ifName}`;
}

/** Returns the container of a lease's content. */
export function containerOf(content: string): string {
  return content.split(LINE_END)[0]?.trim() ?? "";
}

/** Formats a lease of the container alone, as very old plugins do. */
export function formatContainer(containerId: string): string {
  return containerId.trim();
}

/** Describes the owner of a lease. */
export function describeOwner(content: string): string {
  const mac = parseSetAside(content);
  if (mac !== undefined) {
    return `another machine, ${mac}, because of which it is set aside`;
  }
  const name = parsePersistent(content);
  if (name !== undefined) {
    const { namespace, pod, ifName } = name;
    return `pod "${namespace}/${pod}", interface "${ifName}", for which it is reserved`;
  }
  const [containerId, ifName] = content.split(LINE_END);
  return ifName === undefined
    ? `container "${containerId}"`
    : `container "${containerId}", interface "${ifName}"`;
}

/** Parses an address; undefined if the text is not an address. */
export function findIp(text: string): Ip | undefined {
  return unlessNoAddress(() => Ip.parse(text));
}

/** The name of a persistent lease: the interface of a pod. */
export interface PodName {
  readonly namespace: string;
  readonly pod: string;
  readonly ifName: string;
}

/** Formats the content of a persistent lease: the target of its link. */
export function formatPersistent({ namespace, pod, ifName }: PodName): string {
  return `stay/${namespace}/${pod}/${ifName}`;
}

/** Parses the target of a persistent lease's link; undefined for any other content. */
export function parsePersistent(content: string): PodName | undefined {
  const [, namespace, pod, ifName] =
    /^stay\/([^/]*)\/([^/]*)\/([^/]*)$/.exec(content) ?? [];
  return namespace === undefined || pod === undefined || ifName === undefined
    ? undefined
    : { namespace, pod, ifName };
}

/** Formats the content of an address that is set aside: the target of its link. */
export function formatSetAside(mac: Mac): string {
  return `conflict/${mac}`;
}

/** Returns the MAC of the machine that has an address that is set aside. */
export function parseSetAside(content: string): string | undefined {
  return /^conflict\/([\da-f]{2}(?::[\da-f]{2}){5})$/.exec(content)?.[1];
}

/** Reports whether a content is the target of a link, and so belongs to no container. */
export function isOfLink(content: string): boolean {
  return parsePersistent(content) !== undefined ||
    parseSetAside(content) !== undefined;
}

/** Reports whether a list has a lease of an address. */
export function isIn(
  list: readonly Pick<Lease, "ip">[],
  { ip }: Pick<Lease, "ip">,
): boolean {
  return list.some((one) => one.ip.equals(ip));
}
