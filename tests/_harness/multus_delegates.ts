/**
 * Networks of pods that ask for default routes.
 *
 * @module
 */

import { parseNetworkConf } from "../../cni/libcni/conf.ts";
import { Ip } from "../../net/ip.ts";
import type { Delegate } from "../../plugins/multus/model/delegate.ts";

/** Gateways that a network is asked to have; undefined if nothing is asked. */
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
