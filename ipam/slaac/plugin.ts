/**
 * slaac: addresses that the kernel derives from router advertisements.
 *
 * ```
 *  runtime ──▶ macvlan, bridge, ... ──▶ slaac
 *                                         │ sysctls, link up
 *      router ──▶ network ──▶ eth0 in the container
 *         prefix, router, DNS       2001:db8:1::5054:ff:fe12:3456/64
 * ```
 *
 * The kernel of the container's namespace assigns the addresses, checks them
 * for duplicates, and follows the router for as long as the container runs. The
 * plugin prepares the interface, waits, and reports. It keeps no records and
 * needs no daemon: DEL and GC have nothing to release.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { exists } from "../../base/files/io.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyDns, type Result } from "../../cni/result/result.ts";
import { markLearned } from "../../cni/result/learned.ts";
import { listVersionsFrom } from "../../cni/version.ts";
import { type Link, LOOPBACK_INDEX } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import { openSandbox } from "../../plugins/parts/sandbox/sandbox.ts";
import {
  isUsable,
  listLearned,
} from "../../plugins/parts/address/learned_addresses.ts";
import type { SlaacConfig } from "./schema.ts";

const ANYWHERE = Cidr.parse("::/0");

/** The plugin. */
export const slaac: Plugin<SlaacConfig> = definePlugin({
  name: "slaac",
  // Results of earlier versions have no place for the mark of an address.
  versions: listVersionsFrom("0.3.0"),
  configSchema: async () => (await import("./schema.ts")).slaacSchema(),

  async add(call): Promise<Result> {
    const { learn } = await import("./learn.ts");
    using sandbox = openSandbox(call.args);
    const link = getLink(sandbox, call);
    const { addresses, routers, dns } = await learn(call, sandbox, link);
    const [gateway] = routers;
    return {
      interfaces: [],
      ips: addresses.map((address) => markLearned({ address, gateway })),
      routes: routers.map((gw) => markLearned({ dst: ANYWHERE, gw })),
      dns: { ...emptyDns(), ...dns },
    };
  },

  check(call): void {
    using sandbox = openSandbox(call.args);
    const link = getLink(sandbox, call);
    if (listLearned(sandbox, link).some(isUsable)) return;
    const { ips = [] } = call.prevResult ?? {};
    throw new CniError(
      ErrorCode.Internal,
      `slaac: "${link.name}" has no address from a router advertisement`,
      { details: `after ADD it had ${ips.map(({ address }) => address)}` },
    );
  },

  status(): void {
    if (exists("/proc/sys/net/ipv6")) return;
    throw new CniError(
      ErrorCode.PluginNotAvailable,
      "Cannot accept router advertisements: the kernel has no IPv6",
    );
  },
});

/**
 * @throws {CniError} 4 if it is the loopback interface; 999 if the plugin of the
 *   interface has not created it
 */
function getLink(sandbox: Rtnl, { args }: Call): Link {
  const link = sandbox.link.find(args.ifName);
  if (link?.index === LOOPBACK_INDEX) {
    throw new CniError(
      ErrorCode.InvalidEnvironment,
      `slaac: "${link.name}" is the loopback interface, which no router reaches`,
    );
  }
  if (link !== undefined) return link;
  throw new CniError(
    ErrorCode.Internal,
    `Cannot find interface "${args.ifName}" in "${args.netns}"`,
    { details: "slaac needs an interface before its addresses" },
  );
}
