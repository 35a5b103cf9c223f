/**
 * Kernel parameters of a namespace, and their names.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { ifPossible } from "../../base/files/io.ts";
import { inNetns } from "../../ffi/netns.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { readSysctl } from "../../ffi/sysctl.ts";
import type { IpFamily } from "../../net/ip.ts";
import {
  AcceptRa,
  acceptRaOf,
  findLinksToRouters,
  FORWARDING,
} from "../../plugins/parts/address/ip_forward.ts";
import type { NodeReader } from "./node_reader.ts";

/** Reads a parameter of a namespace; undefined if the kernel does not have it. */
export function readSysctlOf(
  { netns }: Pick<NodeReader["host"], "netns">,
  key: string,
): string | undefined {
  return inNetns(netns, () => ifPossible(() => readSysctl(key)));
}

/** Formats a parameter as sysctl(8) does. Names of links can contain dots. */
export function nameOfSysctl(key: string): string {
  return key.includes(".") ? key : key.replaceAll("/", ".");
}

/**
 * Writes the command line that turns forwarding on. A link with accept_ra 1 would ignore
 * router advertisements from then on, and the node would lose its IPv6 router.
 */
export function forwardingCommand(host: Rtnl, family: IpFamily): string {
  const links = family === 4 ? undefined : findLinksToRouters(host);
  const kept = host.link.list().filter(({ index, name }) =>
    links?.has(index) &&
    readSysctlOf(host, acceptRaOf(name)) === AcceptRa.unlessForwarding
  );
  return [
    // With slashes, a name can contain dots.
    ...kept.map(({ name }) =>
      shell`sysctl -w ${acceptRaOf(name)}=${AcceptRa.always}`
    ),
    shell`sysctl -w ${nameOfSysctl(FORWARDING[family])}=1`,
  ].join(" && ");
}
