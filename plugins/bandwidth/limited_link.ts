/**
 * The limited link: the host's end of the container's veth pair, or the container's
 * interface if it has no end on the host.
 *
 * @module
 */

import { invalidConfig } from "../../base/error.ts";
import type { Result } from "../../cni/result/result.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { findHostEnd, findListedEnd } from "../parts/link/host_end.ts";
import type { LimitedLink } from "./directions.ts";
import type { IfbContext } from "./ifb.ts";

/** A link and its location. */
type PlacedLink = Pick<LimitedLink, "host" | "end" | "isInside">;

/**
 * Kinds of interfaces without an end on the host, on which the container sends and
 * receives: macvlan, ipvlan, vlan, and "" for physical devices.
 */
const INSIDE: readonly string[] = ["", "macvlan", "ipvlan", "vlan"];

/**
 * Returns the link to limit, whichever plugin created it. The result must list the
 * host's end.
 *
 * Source: containernetworking/plugins plugins/meta/bandwidth/main.go
 * `getHostInterface`, with its texts.
 *
 * @throws {CniError} 7 if it does not exist
 */
export function getLimitedLink(
  host: Rtnl,
  sandbox: Rtnl,
  { interfaces }: Result,
  ifName: string,
): PlacedLink {
  if (interfaces.length === 0) throw invalidConfig("no interfaces provided");
  const link = sandbox.link.find(ifName);
  if (link !== undefined && INSIDE.includes(link.kind)) {
    return { host: sandbox, end: link, isInside: true };
  }
  const peerIndex = peerIndexOf(ifName, link);
  const end = findHostEnd(host, sandbox, link);
  if (end === undefined) {
    throw invalidConfig(`veth peer with index ${peerIndex} is not in host ns`);
  }
  if (interfaces.some(({ name, sandbox }) => !sandbox && name === end.name)) {
    return { host, end, isInside: false };
  }
  throw invalidConfig(
    "no veth peer of container interface found in host ns",
    { details: `prevResult does not list "${end.name}"` },
  );
}

/**
 * Finds the limited link, if it exists.
 *
 * @param result The result, if the runtime has kept it
 */
export function findLimitedLink(
  host: Rtnl,
  sandbox: Rtnl | undefined,
  ifName: string,
  result: Result | undefined,
): Omit<IfbContext, "identity"> {
  if (sandbox === undefined) {
    return { host, end: undefined, isInside: false, hasSandbox: false };
  }
  const link = sandbox.link.find(ifName);
  if (link && INSIDE.includes(link.kind)) {
    return { host: sandbox, end: link, isInside: true, hasSandbox: true };
  }
  const end = findListedEnd(host, sandbox, result) ??
    findHostEnd(host, sandbox, link);
  return { host, end, isInside: false, hasSandbox: true };
}

function peerIndexOf(ifName: string, end: Link | undefined): number {
  const what = `container interface ${ifName} has no veth peer`;
  if (end === undefined) {
    throw invalidConfig(`${what}: there is no such interface`);
  }
  if (end.kind === "veth" && end.linkIndex) return end.linkIndex;
  throw invalidConfig(
    `${what}: its kind is "${end.kind}"`,
    {
      details:
        "bandwidth limits veth pairs, such as those of ptp and bridge, and interfaces of macvlan, ipvlan, vlan and host-device",
    },
  );
}
