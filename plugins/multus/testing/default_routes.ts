/**
 * Networks of pods that request default routes.
 *
 * @module
 */

import { parseNetworkConf } from "../../../libcni/conf.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { Ip } from "../../../net/ip.ts";
import { ipJson } from "../../../testing/ip_json.ts";
import type { Delegate } from "../model/delegate.ts";

/** The requested gateways of a network; undefined if none are requested. */
export type Gateways = readonly string[] | undefined;

/** Builds networks `net0`, `net1`, ... from their options. */
export function delegatesWith(...requests: readonly Gateways[]): Delegate[] {
  return requests.map((gateways, position) => {
    const name = `net${position}`;
    const text = JSON.stringify({ name, type: "macvlan", cniVersion: "1.1.0" });
    return {
      name: `test/${name}`,
      conf: parseNetworkConf(new TextEncoder().encode(text)),
      request: gateways === undefined
        ? {}
        : { defaultRoute: gateways.map((gateway) => Ip.parse(gateway)) },
      isFilterV4Gateway: false,
      isFilterV6Gateway: false,
    };
  });
}

/** A route, or a nexthop of a route, in the output of `ip -j`. */
interface IpRoute {
  readonly type?: string;
  readonly dst?: string;
  readonly gateway?: string;
  readonly dev?: string;
  readonly table?: string;
  readonly metric?: number;
  readonly metrics?: readonly { readonly mtu?: number }[];
  readonly flags?: readonly string[];
  readonly nexthops?: readonly IpRoute[];
}

/**
 * Lists the routes of a namespace with a prefix shorter than 8, IPv4 first, in the
 * format of `ip route`: `via 10.0.0.1 dev eth0 metric 100`. Routes in tables other
 * than main come last.
 */
export function defaultRoutes(netns: NetNs): string[] {
  const routes: IpRoute[] = ["-4", "-6"].flatMap((family) =>
    ipJson(netns, family, "route", "show", "table", "all")
  );
  return routes.filter(({ dst = "" }) => /^default$|\/[0-7]$/.test(dst))
    .filter(({ dst, table }) => dst === "default" || table !== "local")
    .toSorted((one, other) =>
      Number(isElsewhere(one)) - Number(isElsewhere(other))
    )
    .map(describe);
}

function isElsewhere({ table = "main" }: IpRoute): boolean {
  return table !== "main";
}

function describe(route: IpRoute): string {
  const { type = "unicast", dst, table, metric, metrics = [] } = route;
  return [
    type === "unicast" ? "" : type,
    dst === "default" ? "" : dst,
    ...route.nexthops?.map((hop) => `nexthop ${describeWay(hop)}`) ??
      [type === "unicast" ? describeWay(route) : ""],
    isElsewhere(route) ? `table ${table}` : "",
    metric ? `metric ${metric}` : "",
    ...metrics.map(({ mtu }) => mtu === undefined ? "" : `mtu ${mtu}`),
    route.flags?.includes("onlink") ? "onlink" : "",
  ].filter((text) => text).join(" ");
}

function describeWay({ gateway, dev }: IpRoute): string {
  return gateway === undefined ? `dev ${dev}` : `via ${gateway} dev ${dev}`;
}
