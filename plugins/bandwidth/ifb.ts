/**
 * The intermediate functional block (IFB) of an attachment: the link through
 * which goes what the container sends, for the sake of its queue.
 *
 * @module
 */

import { sha512 } from "../../cni/sha512.ts";
import type { ValidAttachment } from "../../cni/types.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Link, NewIfb } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import {
  aliasOf,
  aliasPrefixOf,
  type Attachment,
} from "../parts/attachment.ts";
import { stableName } from "../parts/stable_name.ts";
import { isRedirected } from "./redirect.ts";

const PREFIX = "bwp", HASH_DIGITS = 12;

/** How an attachment's IFB is found. */
export interface IfbIdentity {
  /** The name as the Go plugin computes it, which the container's attachments to the network share. */
  readonly sharedName: string;
  /** The name where another attachment has the shared one. */
  readonly ownName: string;
  /** Says whose it is; the Go plugin's have none. */
  readonly alias: string;
}

/**
 * Computes how an attachment's IFB is found.
 *
 * Source: containernetworking/plugins pkg/utils/utils.go
 * `MustFormatHashWithPrefix`.
 */
export async function identifyIfb(
  attachment: Attachment,
): Promise<IfbIdentity> {
  const { network, containerId, ifName } = attachment;
  const hash = await sha512(network + containerId);
  return {
    sharedName: PREFIX + hash.slice(0, HASH_DIGITS),
    ownName: stableName(PREFIX, network, containerId, ifName),
    alias: aliasOf(attachment),
  };
}

/** Where an IFB belongs. */
export interface IfbPlace {
  /** The host's namespace. */
  readonly host: Rtnl;
  /** Whose it is. */
  readonly identity: IfbIdentity;
  /** The host's end of the cable, if it is there. */
  readonly end: Link | undefined;
  /** Whether the sandbox is there, so that the cables of its interfaces are. */
  readonly hasSandbox: boolean;
}

/**
 * Creates the attachment's IFB, up and without a queue, in place of one that
 * was left by an ADD that was not finished.
 *
 * @throws {Error} If the kernel refuses
 */
export function createIfb(
  place: IfbPlace,
  settings: Omit<NewIfb, "name">,
): Link {
  const { sharedName, ownName, alias } = place.identity;
  const { link } = place.host;
  try {
    for (const name of [ownName, sharedName]) {
      const found = link.find(name);
      if (found && isLeftover(place, found)) link.ensureGone(found.index);
    }
    const ifb = addUnlessTaken(place.host, { ...settings, name: sharedName }) ??
      link.addIfb({ ...settings, name: ownName });
    link.setAlias(ifb.index, alias);
    return ifb;
  } catch (error) {
    throw new Error(`Cannot create "${sharedName}"`, { cause: error });
  }
}

function addUnlessTaken(host: Rtnl, ifb: NewIfb): Link | undefined {
  try {
    return host.link.addIfb(ifb);
  } catch (error) {
    if (isErrno(error, "EEXIST")) return undefined;
    throw error;
  }
}

/** One without alias may be another attachment's that is being made right now. */
function isLeftover({ host, identity, end }: IfbPlace, link: Link): boolean {
  if (link.kind !== "ifb" || end === undefined) return false;
  if (link.alias !== undefined) return link.alias === identity.alias;
  return isRedirected(new TrafficControl(host.socket), end.index, link.index);
}

/** Finds the attachment's IFB, whoever of us and the Go plugin has made it. */
export function findIfb(place: IfbPlace): Link | undefined {
  return listIfbs(place)[0];
}

/**
 * Deletes the attachment's IFB, whoever has made it.
 *
 * @throws {SyscallError} If the kernel refuses
 */
export function deleteIfb(place: IfbPlace): void {
  for (const { index } of listIfbs(place)) place.host.link.ensureGone(index);
}

/** Lists the attachment's IFBs: there are two if an ADD was killed. */
export function listIfbs(place: IfbPlace): Link[] {
  const { ownName, sharedName } = place.identity;
  return [ownName, sharedName].flatMap((name) => {
    const link = place.host.link.find(name);
    return link !== undefined && isOwn(place, link) ? [link] : [];
  });
}

/**
 * Says whether a link of one of the names is this attachment's IFB. The Go
 * plugin's have no alias: such a one may also be of another attachment of the
 * container, if the cable of that leads there.
 */
function isOwn(
  { host, identity, end, hasSandbox }: IfbPlace,
  link: Link,
): boolean {
  if (link.kind !== "ifb") return false;
  if (link.alias !== undefined) return link.alias === identity.alias;
  return !hasSandbox || !isUsedByOthers(host, link, end);
}

function isUsedByOthers(
  host: Rtnl,
  ifb: Link,
  end: Link | undefined,
): boolean {
  const traffic = new TrafficControl(host.socket);
  return host.link.list().some(({ kind, index }) =>
    kind === "veth" && index !== end?.index &&
    isRedirected(traffic, index, ifb.index)
  );
}

/**
 * Deletes the IFBs of attachments to a network that are no longer valid.
 *
 * @throws {SyscallError} If the kernel refuses
 */
export function deleteStaleIfbs(
  host: Rtnl,
  network: string,
  valid: readonly ValidAttachment[],
): void {
  const spared = valid.map((attachment) => aliasOf({ ...attachment, network }));
  const prefix = aliasPrefixOf(network);
  // The next GC finds what this one misses.
  const stale = host.link.list({ mayBeIncomplete: true }).filter((
    { kind, name, alias },
  ) =>
    kind === "ifb" && name.startsWith(PREFIX) &&
    alias?.startsWith(prefix) === true && !spared.includes(alias)
  );
  host.link.ensureAllGone(stale.map(({ index }) => index));
}
