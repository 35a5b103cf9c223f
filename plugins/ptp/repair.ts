/**
 * REPAIR: repeats the steps of ADD for missing parts of the veth pair.
 *
 * @module
 */

import type { Call, RepairScope } from "../../cni/plugin.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import {
  ensureForwarding,
  ensureForwardingFrom,
} from "../parts/address/ip_forward.ts";
import { repairMasquerade } from "../parts/firewall/masquerade/steps.ts";
import { listMissingRoutes } from "../parts/link/check_link.ts";
import {
  findVethPair,
  listMissingAddresses,
  repairLink,
} from "../parts/link/repair_link.ts";
import { ownPartOf, requirePrevResult } from "../parts/sandbox/prev_result.ts";
import { openSandbox } from "../parts/sandbox/sandbox.ts";
import {
  containerRoute,
  gatewayRoutes,
  gatewaysOf,
  routedIpsOf,
  routeToContainer,
} from "./routing.ts";
import type { PtpConfig } from "./schema.ts";

/**
 * Restores missing parts if the veth pair exists, because nothing else leads to the
 * container.
 *
 * @throws {Error} If the kernel refuses, or an address is routed elsewhere
 */
export async function repair(
  call: Call<PtpConfig>,
  scope: RepairScope,
): Promise<void> {
  const prevResult = requirePrevResult(
    call,
    "ptp: Required prevResult missing",
  );
  using host = Rtnl.open(call.hostNetns);
  using sandbox = openSandbox(call.args);
  const pair = findVethPair(host, sandbox, prevResult, call.args.ifName);
  if (pair === undefined) return;
  const { container, end } = pair;
  const own = ownPartOf(prevResult, call.args);
  const ips = routedIpsOf(own);
  const addresses = ips.map(({ address }) => address);
  if (scope.sandbox) {
    repairLink(sandbox, container, {
      addresses,
      noPrefixRoute: true,
      routes: [
        ...gatewayRoutes(ips),
        ...own.routes.map((route) => containerRoute(route, ips)),
      ],
    });
  }
  // The kernel deletes the routes of a link that is down.
  if (!end.isUp) host.link.set(end.index, { isUp: true });
  const gateways = gatewaysOf(ips).map(Cidr.host);
  const destinations = addresses.map(({ ip }) => Cidr.host(ip));
  const lost = listMissingRoutes(
    host,
    end,
    destinations.map((destination) => ({ destination })),
    "main",
  );
  await routeToContainer(host, end, {
    gateways: listMissingAddresses(host, end, gateways),
    destinations: lost.map(({ destination }) => destination),
    owner: { call, lease: own },
  });
  ensureForwarding(host.netns, addresses);
  await repairMasquerade(call, addresses);
  // This is last, because the host and its containers reach each other without it.
  ensureForwardingFrom(host.netns, addresses, end.name);
}
