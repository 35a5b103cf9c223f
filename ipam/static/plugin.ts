/**
 * static: addresses from the configuration or the runtime.
 *
 * The plugin keeps no records: whoever configures the addresses has to keep
 * them unique. So DEL and GC have nothing to do.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import {
  emptyDns,
  type IpConfig,
  type Result,
} from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { addressesOf, type StaticAddress } from "./config.ts";
import type { StaticConfig } from "./schema.ts";

/** The plugin. Source: containernetworking/plugins plugins/ipam/static/main.go. */
export const staticIpam: Plugin<StaticConfig> = definePlugin({
  name: "static",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).staticSchema(),

  add(call): Result {
    const ips = addressesOf(call)
      .map(({ address, gateway }): IpConfig => ({ address, gateway }));
    const { routes = [], dns = emptyDns() } = call.config.ipam ?? {};
    return { interfaces: [], ips, routes, dns };
  },

  async check(call): Promise<void> {
    const expected = addressesOf(call);
    if (call.prevResult === undefined) {
      throw new CniError(
        ErrorCode.InvalidNetworkConfig,
        "Required prevResult missing",
      );
    }
    const { ips } = call.prevResult;
    const { Differences } = await import("../../cni/call/differences.ts");
    const differences = new Differences();
    for (const address of expected) {
      await differences.collect(() => checkAddress(address, ips, call));
    }
    differences.throwAny();
  },

  status(call): void {
    // A runtime passes addresses and CNI_ARGS with each ADD, but not with
    // STATUS.
    addressesOf({ ...call, args: { ...call.args, args: "" } });
  },
});

/**
 * Looks for an address among the attachment's. The interface's plugin checks
 * the prefix length.
 *
 * @throws {CniError} 999 if it is missing, or has a different gateway
 */
function checkAddress(
  { address: { ip }, gateway, isGatewayFound }: StaticAddress,
  ips: readonly IpConfig[],
  { args: { ifName } }: Call,
): void {
  const found = ips.find(({ address }) => address.ip.equals(ip));
  const fail = (details: string): CniError =>
    new CniError(
      ErrorCode.Internal,
      `static: Failed to match addr ${ip} on interface ${ifName}`,
      { details },
    );
  if (found === undefined) throw fail("prevResult has no such address");
  // The Go plugin, which does not find gateways this way, might have run ADD.
  const mayLackGateway = isGatewayFound && found.gateway === undefined;
  if (gateway === undefined || mayLackGateway) return;
  if (found.gateway?.equals(gateway)) return;
  throw fail(
    `its gateway is ${gateway}, but in prevResult ${found.gateway ?? "none"}`,
  );
}
