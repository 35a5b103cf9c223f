/**
 * The targets that a network must let its containers reach.
 *
 * @module
 */

import { ifPossible, readTextFile } from "../../../base/files/io.ts";
import type { Result } from "../../../cni/result/result.ts";
import { valueOf } from "../../../cni/tools/about.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { parseResolvConf } from "../../../ipam/host_local/inspect.ts";
import { Ip, type IpFamily } from "../../../net/ip.ts";
import type { ConfiguredNetwork, Node } from "../node.ts";
import type { Attempt, Party } from "./reach.ts";

/** Where it is looked up what containers use. */
export interface AttemptOptions {
  /** The resolver's configuration that pods get if their network has none. */
  readonly resolvConf: string;
}

/** Lists what must be reached if the network does what it was written for. */
export function listAttempts(
  node: Node,
  { plugins }: ConfiguredNetwork,
  netns: readonly NetNs[],
  results: readonly Result[],
  options: AttemptOptions,
): Attempt[] {
  const own = node.host.address.list().map(({ address }) => address.ip);
  const isOwn = (ip: Ip): boolean => own.some((one) => one.equals(ip));
  const masquerades = plugins.some(({ document }) =>
    valueOf(document, "ipMasq") === true
  );
  const [first, second] = results;
  const [a, b] = netns;
  if (!first || !second || !a || !b) return [];
  const attempts: Attempt[] = [];
  const add = (from: Party, by: NetNs, to: Party, address: Ip): void => {
    attempts.push({ from, netns: by, to, address });
  };
  for (const family of [4, 6] as const) {
    const [ipA, ipB] = [first, second].map((one) => ipOf(one, family));
    if (ipA === undefined || ipB === undefined) continue;
    add("A", a, "B", ipB.address.ip);
    add("B", b, "A", ipA.address.ip);
    const { gateway } = ipA;
    const isRouted = gateway !== undefined && isOwn(gateway);
    // host-local names a gateway for each subnet, whether or not there is one.
    const isUsed = isRouted ||
      first.routes.some(({ dst }) => dst.family === family);
    if (gateway !== undefined && isUsed) {
      for (const [name, by] of [["A", a], ["B", b]] as const) {
        add(
          name,
          by,
          "gateway",
          ipOf(name === "A" ? first : second, family)
            ?.gateway ?? gateway,
        );
      }
    }
    if (!isRouted) continue;
    add("node", node.host.netns, "A", ipA.address.ip);
    add("node", node.host.netns, "B", ipB.address.ip);
    const [uplink] = node.host.route.list({ family }).filter((route) =>
      route.destination.prefixLength === 0 && route.ifindex !== undefined
    ).sort((left, right) => (left.priority ?? 0) - (right.priority ?? 0));
    const hasDefault = first.routes.some(({ dst }) =>
      dst.family === family && dst.prefixLength === 0
    );
    if (uplink === undefined || !hasDefault) continue;
    const address = node.host.address.list({ ifindex: uplink.ifindex ?? 0 })
      .find(({ address: { ip } }) => ip.family === family && !ip.isLinkLocal);
    if (address !== undefined) {
      add("A", a, "node", address.address.ip);
      add("B", b, "node", address.address.ip);
    }
    // Without masquerading, the outside needs a route back, which it may not have.
    if (!masquerades || uplink.gateway === undefined) continue;
    add("A", a, "outside", uplink.gateway);
    add("B", b, "outside", uplink.gateway);
  }
  for (const server of listServers(first, masquerades, options)) {
    add("A", a, "name", server);
    add("B", b, "name", server);
  }
  return attempts;
}

function ipOf(
  { ips }: Result,
  family: IpFamily,
): Result["ips"][number] | undefined {
  return ips.find(({ address }) => address.family === family);
}

/** Lists the name servers that containers of a network use, and can reach. */
function listServers(
  { dns, ips, routes }: Result,
  masquerades: boolean,
  { resolvConf }: AttemptOptions,
): Ip[] {
  const ofNetwork = dns.nameservers;
  // A network without a way out is not meant to reach the node's servers.
  const hasWay = masquerades &&
    routes.some(({ dst }) => dst.prefixLength === 0);
  const text = ifPossible(() => readTextFile(resolvConf)) ?? "";
  const named = ofNetwork.length > 0
    ? ofNetwork
    : hasWay
    ? parseResolvConf(text).nameservers
    : [];
  return named.flatMap((text) => ifPossible(() => Ip.parse(text)) ?? [])
    .filter((ip) =>
      !ip.isLoopback && !ip.isLinkLocal &&
      ips.some(({ address }) => address.family === ip.family)
    ).slice(0, 1);
}
