/**
 * Marks of networks that lose default routes to another one.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import type { Ip } from "../../../net/ip.ts";
import type { Delegate } from "../model/delegate.ts";

/**
 * Marks delegates that lose default routes to another network of the pod, for
 * the scratch file. Without any list of gateways nothing is marked.
 *
 * The reference acts on these marks. Here they are only recorded:
 * `applyDefaultRoute()` does not use them.
 *
 * @throws {CniError} 7 If two gateways of the same family are requested
 */
export function markDefaultRoutes(delegates: readonly Delegate[]): Delegate[] {
  const isAnyAsked = delegates.some(({ request }) => request.defaultRoute);
  if (!isAnyAsked) return [...delegates];
  const gateways = delegates.flatMap(({ request }) =>
    request.defaultRoute ?? []
  );
  for (const family of [4, 6]) {
    const rivals = gateways.filter((ip) => ip.family === family);
    if (rivals.length > 1) throw severalGateways(rivals);
  }
  return delegates.map((delegate) => {
    const families = delegate.request.defaultRoute?.map(({ family }) => family);
    return {
      ...delegate,
      isFilterV4Gateway: !families?.includes(4),
      isFilterV6Gateway: !families?.includes(6),
    };
  });
}

/** The message equals the reference's. */
function severalGateways(gateways: readonly Ip[]): CniError {
  return new CniError(
    ErrorCode.InvalidNetworkConfig,
    "multus does not support ECMP for default-route",
    { details: `the gateways are ${gateways.join(", ")}` },
  );
}
