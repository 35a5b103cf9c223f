/**
 * The addresses of a pod.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";
import type { Result } from "../cni/result/result.ts";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import type { Ip } from "../net/ip.ts";
import { POD_IFNAME, type PodSandbox } from "./pod.ts";

/** The addresses at which a pod can be reached. */
export interface PodIps {
  /** The first address. */
  readonly ip: Ip;
  /** IPv4 before IPv6. */
  readonly ips: readonly Ip[];
}

/** @returns Undefined without addresses */
function orderIps(ips: readonly Ip[]): PodIps | undefined {
  const [v4, v6] = [4, 6].map((family) =>
    ips.filter((ip) => ip.family === family)
  );
  const ordered = [...v4 ?? [], ...v6 ?? []];
  return ordered[0] && { ip: ordered[0], ips: ordered };
}

/**
 * Returns the addresses of a pod's interface from the result of ADD. An address
 * without an interface belongs to this one.
 *
 * Source: containerd go-cni result.go `createResult`, containerd
 * `setupPodNetwork`.
 *
 * @throws {CniError} 999 without addresses
 */
export function getResultIps(
  { interfaces, ips }: Result,
  network: string,
  { containerId }: Pick<PodSandbox, "containerId">,
): PodIps {
  const own = ips.filter(({ interface: index }) =>
    index === undefined || interfaces[index]?.name === POD_IFNAME
  ).map(({ address }) => address.ip);
  const found = orderIps(own);
  if (found !== undefined) return found;
  throw new CniError(
    ErrorCode.Internal,
    `failed to find network info for sandbox "${containerId}"`,
    {
      details: `the result of network "${network}" has no IP address of ` +
        `"${POD_IFNAME}"`,
    },
  );
}

/**
 * Reads the global addresses of a pod's interface from its network namespace, in
 * kernel order.
 *
 * Source: kubelet `GetPodIPs`, which runs `ip -o addr show dev eth0 scope global`.
 *
 * @throws {CniError} 8 if the namespace cannot be opened, 999 if the interface
 *   does not exist or has no global address
 */
export function readPodIps({ netns }: Pick<PodSandbox, "netns">): PodIps {
  using sandbox = openSandbox(netns);
  const fail = (why: string): CniError =>
    new CniError(
      ErrorCode.Internal,
      `Cannot find an IP address in network namespace "${netns}": ${why}`,
    );
  const link = sandbox.link.find(POD_IFNAME);
  if (link === undefined) throw fail(`there is no interface "${POD_IFNAME}"`);
  const found = orderIps(
    sandbox.address.list({ ifindex: link.index })
      .filter(({ hasDadFailed }) => !hasDadFailed)
      .map(({ address }) => address.ip)
      .filter((ip) => ip.isGlobalUnicast),
  );
  if (found !== undefined) return found;
  throw fail(`interface "${POD_IFNAME}" has no global address`);
}

function openSandbox(netns: string): Rtnl {
  try {
    return Rtnl.open(netns);
  } catch (error) {
    throw new CniError(
      ErrorCode.InvalidNetns,
      `Cannot open network namespace "${netns}"`,
      { cause: error },
    );
  }
}
