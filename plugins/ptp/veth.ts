/**
 * The cable itself: a veth with one end in the host and one in the sandbox.
 *
 * @module
 */

import type { Call } from "../../cni/plugin.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Link, NewVeth } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { readyHostEndForIpv6 } from "../_shared/ipv6.ts";
import { stableName } from "../_shared/stable_name.ts";
import type { PtpConfig } from "./config.ts";

/** What is needed of a link to configure it. */
export type LinkEnd = Pick<Link, "index" | "name">;

/** Both ends of the cable. */
export interface Veth<End extends LinkEnd = LinkEnd> {
  readonly host: End;
  readonly container: End;
}

/**
 * Creates the cable, the host's end up and the container's end still down.
 * Leaves nothing if it fails.
 *
 * @throws {Error} If the kernel refuses it
 */
export function connectVeth(
  { host, sandbox, hostIfName, call }: {
    host: Rtnl;
    sandbox: Rtnl;
    hostIfName: string;
    call: Call<PtpConfig>;
  },
): Veth {
  const mtu = call.config.mtu ?? 0;
  try {
    const hostEnd = addVeth(host, {
      name: hostIfName,
      mtu: mtu > 0 ? mtu : undefined,
      peer: { netns: sandbox.netns, name: call.args.ifName },
    });
    readyHostEndForIpv6(host.netns, hostIfName);
    if (hostEnd.linkIndex === undefined) throw new Error("it has no peer");
    const container = { index: hostEnd.linkIndex, name: call.args.ifName };
    return { host: hostEnd, container };
  } catch (error) {
    host.link.ensureGone(hostIfName);
    throw new Error(
      `Cannot connect "${call.args.ifName}" to "${hostIfName}"`,
      { cause: error },
    );
  }
}

/**
 * The host's end is named after the attachment. One that is there already was
 * left by a tear-down of this very attachment that did not come about.
 */
function addVeth(host: Rtnl, veth: NewVeth): Link {
  try {
    return host.link.addVeth(veth);
  } catch (error) {
    if (!isErrno(error, "EEXIST") || !host.link.ensureGone(veth.name)) {
      throw error;
    }
    return host.link.addVeth(veth);
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
export function hostIfNameOf({ network, args }: Call<PtpConfig>): string {
  return stableName(HOST_PREFIX, network, args.containerId, args.ifName);
}

/**
 * Deletes the cable by the host's end, or by the container's if the Go plugin
 * made it, whose hosts' ends have names of chance.
 *
 * @param sandbox Undefined if the namespace is gone
 */
export function deleteVeth(
  { host, sandbox, hostIfName, ifName }: {
    host: Rtnl;
    sandbox: Rtnl | undefined;
    hostIfName: string;
    ifName: string;
  },
): void {
  if (host.link.ensureGone(hostIfName)) return;
  const link = sandbox?.link.find(ifName);
  if (link !== undefined && mayBeOurs(host, link)) {
    sandbox?.link.ensureGone(link.index);
  }
}

/**
 * Says whether an interface of the sandbox may be this attachment's, now that
 * the host's end by our name is not there. It is not if it is no cable, or one
 * of another attachment: an ADD that failed because the name was taken is also
 * followed by a DEL.
 */
function mayBeOurs(host: Rtnl, { kind, linkIndex }: Link): boolean {
  if (kind !== "veth") return false;
  const peer = linkIndex === undefined ? undefined : host.link.find(linkIndex);
  return peer === undefined || !OUR_HOST_END.test(peer.name);
}
