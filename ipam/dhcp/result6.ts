/**
 * The result of an IPv6 lease.
 *
 * @module
 */

import { markLearned } from "../../cni/result/learned.ts";
import { emptyDns, type Result } from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import type { Lease6 } from "./lease.ts";

/** Builds the result, without routes: they are the router's. */
export function resultOf6({ addresses, nameservers, search }: Lease6): Result {
  return {
    interfaces: [],
    ips: addresses.map(({ address }) =>
      markLearned({ address: Cidr.host(Ip.parse(address)) })
    ),
    routes: [],
    dns: { ...emptyDns(), nameservers, search },
  };
}
