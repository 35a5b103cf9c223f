/**
 * The cable itself: a veth with one end in the host and one in the sandbox.
 *
 * @module
 */

import { CniError } from "../../cni/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { ValidAttachment } from "../../cni/types.ts";
import { isAtLeast } from "../../cni/version.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Link, NewVeth } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { readyHostEndForIpv6 } from "../_shared/ipv6.ts";
import { readablePrevResult } from "../_shared/prev_result.ts";
import { checkIfNameIsFree } from "../_shared/sandbox.ts";
import { stableName } from "../_shared/stable_name.ts";
import type { PtpConfig } from "./config.ts";

/** What is needed of a link to configure it. */
export type LinkEnd = Pick<Link, "index" | "name">;

/** Both ends of the cable. */
export interface Veth<End extends LinkEnd = LinkEnd> {
  readonly host: End;
  readonly container: End;
}

/** A cable that was just made. */
export interface ConnectedVeth extends Veth {
  /** One of the same attachment was there before. */
  readonly isReplacement: boolean;
}

/**
 * Creates the cable, the host's end up and the container's end still down.
 * Leaves nothing if it fails.
 *
 * @throws {Error} If the kernel refuses it
 */
export function connectVeth(
  host: Rtnl,
  sandbox: Rtnl,
  call: Call<PtpConfig>,
): ConnectedVeth {
  const hostIfName = hostIfNameOf(call);
  const mtu = call.config.mtu ?? 0;
  try {
    const { link: hostEnd, isReplacement } = addVeth(host, sandbox, {
      name: hostIfName,
      mtu: mtu > 0 ? mtu : undefined,
      peer: { netns: sandbox.netns, name: call.args.ifName },
    });
    host.link.setAlias(
      hostEnd.index,
      aliasOf({ ...call.args, network: call.network }),
    );
    readyHostEndForIpv6(host.netns, hostIfName);
    if (hostEnd.linkIndex === undefined) throw new Error("it has no peer");
    const container = { index: hostEnd.linkIndex, name: call.args.ifName };
    return { host: hostEnd, container, isReplacement };
  } catch (error) {
    // Another call has connected the sandbox meanwhile: its cable stays.
    if (error instanceof CniError) throw error;
    host.link.ensureGone(hostIfName);
    throw new Error(
      `Cannot connect "${call.args.ifName}" to "${hostIfName}"`,
      { cause: error },
    );
  }
}

/**
 * The host's end is named after the attachment. One that is there already, but
 * not connected to this sandbox, was left by a tear-down of this very attachment
 * that did not come about.
 */
function addVeth(
  host: Rtnl,
  sandbox: Rtnl,
  veth: NewVeth,
): { link: Link; isReplacement: boolean } {
  try {
    return { link: host.link.addVeth(veth), isReplacement: false };
  } catch (error) {
    if (!isErrno(error, "EEXIST")) throw error;
    checkIfNameIsFree(sandbox, veth.peer.name);
    if (!host.link.ensureGone(veth.name)) throw error;
    return { link: host.link.addVeth(veth), isReplacement: true };
  }
}

/**
 * Looks at both ends, which makes sure that they carry: they do so from the
 * moment that the container's end comes up, but the kernel takes note a little
 * later, unless it is asked for the link, and drops what is sent before.
 */
export function settleVeth(
  host: Rtnl,
  sandbox: Rtnl,
  veth: Veth,
): Veth<Link> {
  return {
    container: sandbox.link.get(veth.container.index),
    host: host.link.get(veth.host.index),
  };
}

/** What all our hosts' ends are called; the Go plugin's have eight digits. */
const HOST_PREFIX = "veth", OUR_HOST_END = /^veth[0-9a-f]{11}$/;

/** Names the host's end after the attachment, so that DEL finds it without the sandbox. */
function hostIfNameOf({ network, args }: Call<PtpConfig>): string {
  return stableName(HOST_PREFIX, network, args.containerId, args.ifName);
}

/**
 * Deletes the cable by the host's end, or by the container's if the Go plugin
 * made it, whose hosts' ends have names of chance.
 *
 * @param findSandbox Opens the sandbox if it is still there
 * @throws {SyscallError} If the kernel refuses
 */
export function deleteVeth(
  host: Rtnl,
  call: Call<PtpConfig>,
  findSandbox: () => Rtnl | undefined,
): void {
  if (host.link.ensureGone(hostIfNameOf(call))) return;
  using sandbox = findSandbox();
  const link = sandbox?.link.find(call.args.ifName);
  if (link !== undefined && isFromGoPlugin(host, link, call)) {
    sandbox?.link.ensureGone(link.index);
  }
}

/**
 * Says whether an interface of the sandbox is this attachment's, now that the
 * host's end by our name is not there. An ADD that failed because the name was
 * taken is also followed by a DEL: then it is another one's. From 0.4.0 on the
 * runtime says by prevResult whether there was an ADD that succeeded.
 */
function isFromGoPlugin(
  host: Rtnl,
  { kind, linkIndex, name }: Link,
  call: Call<PtpConfig>,
): boolean {
  if (kind !== "veth" || linkIndex === undefined) return false;
  const peer = host.link.find(linkIndex);
  if (
    peer === undefined || peer.masterIndex !== undefined ||
    OUR_HOST_END.test(peer.name)
  ) return false;
  if (!isAtLeast(call.cniVersion, "0.4.0")) return true;
  const named = readablePrevResult(call)?.interfaces.map((one) => one.name) ??
    [];
  return named.includes(name) && named.includes(peer.name);
}

/**
 * Deletes the cables of attachments to the network that are no longer valid.
 *
 * @throws {SyscallError} If the kernel refuses
 */
export function deleteStaleVeths(
  host: Rtnl,
  network: string,
  valid: readonly ValidAttachment[],
): void {
  const aliases = valid.map(({ containerId, ifName }) =>
    aliasOf({ network, containerId, ifName })
  );
  for (const { index, name, alias } of host.link.list()) {
    const isOurs = OUR_HOST_END.test(name) &&
      alias?.startsWith(`${ALIAS_PREFIX}${network}/`) === true;
    if (isOurs && !aliases.includes(alias)) host.link.ensureGone(index);
  }
}

/** Begins the alias that tells GC whose cable it is. */
const ALIAS_PREFIX = "cni/";
/** Source: include/uapi/linux/if.h `IFALIASZ` less the final NUL. */
const MAX_ALIAS_LENGTH = 255;

/** Neither network nor container nor interface may have a slash in its name. */
function aliasOf(
  { network, containerId, ifName }: ValidAttachment & { network: string },
): string {
  return `${ALIAS_PREFIX}${network}/${containerId}/${ifName}`
    .slice(0, MAX_ALIAS_LENGTH);
}
