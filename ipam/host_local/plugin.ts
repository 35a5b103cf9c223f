/**
 * host-local: addresses from ranges in the configuration, leased in files on
 * this host.
 *
 * ```json
 * {
 *   "ipam": {
 *     "type": "host-local",
 *     "ranges": [
 *       [{ "subnet": "10.1.2.0/24", "exclude": ["10.1.2.64/26"] }],
 *       [{ "subnet": "2001:db8:1::/64" }]
 *     ],
 *     "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }]
 *   }
 * }
 * ```
 *
 * An attachment gets one address from each list of ranges. The leases are in
 * `/var/lib/cni/networks/<network>/` (`dataDir`), in the Go plugin's format, so
 * that both may be in use on one host. DEL leaves the folder with its `lock`
 * and `last_reserved_ip.*`. GC ends the leases of attachments that are no longer
 * valid, if it is told which ones are. STATUS tells whether an ADD would find
 * addresses. Where there are many leases, an index in `/run/cni/host-local` keeps
 * the time of ADD and DEL from growing with them.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyDns, type IpConfig, type Result } from "../../cni/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { Cidr } from "../../net/cidr.ts";
import type { Candidate } from "./allocator.ts";
import { dataDirOf, rangeSetsOf, requestedIpsOf } from "./config.ts";
import { distribute, leaseEach } from "./leasing.ts";
import { findRange } from "./range.ts";
import { readResolvConf } from "./resolv_conf.ts";
import type { HostLocalConfig } from "./schema.ts";
import { LeaseStore } from "./store.ts";

/** The plugin. Source: containernetworking/plugins plugins/ipam/host-local/main.go. */
export const hostLocal: Plugin<HostLocalConfig> = definePlugin({
  name: "host-local",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).hostLocalSchema(),

  // Nothing here may wait while the store is open: a second call in this very
  // process would block on the lock, and the first could not go on.
  add(call): Result {
    const sets = rangeSetsOf(call.config, call.cniVersion);
    const wishes = distribute(requestedIpsOf(call.config, call.args), sets);
    const { resolvConf, routes = [] } = call.config.ipam ?? {};
    const dns = resolvConf ? readResolvConf(resolvConf) : emptyDns();
    using store = LeaseStore.open(dataDirOf(call.config), call.network);
    const leased = leaseEach(wishes, call.args, store, call.log);
    return { interfaces: [], ips: leased.map(ipConfigOf), routes, dns };
  },

  check(call): void {
    const sets = rangeSetsOf(call.config, call.cniVersion);
    using store = LeaseStore.find(dataDirOf(call.config), call.network);
    const leased = (store?.leasesOf(call.args) ?? []).map(({ ip }) => ip);
    const lost = call.prevResult?.ips.find(({ address: { ip } }) =>
      sets.some((set) => findRange(set, ip)) &&
      !leased.some((lease) => lease.equals(ip))
    );
    if (leased.length > 0 && lost === undefined) return;
    throw new CniError(
      ErrorCode.Internal,
      `host-local: Failed to find address added by container ${call.args.containerId}`,
      lost === undefined ? {} : { details: `${lost.address.ip} is not leased` },
    );
  },

  // The ranges do not matter here: leases shall end even if the configuration
  // has become wrong since.
  del(call): void {
    using store = LeaseStore.find(dataDirOf(call.config), call.network);
    store?.release(store.leasesOf(call.args));
  },

  gc(call): void {
    const valid = call.validAttachments;
    // A list that is missing is not an empty one: then nothing is known.
    if (valid === undefined) return;
    using store = LeaseStore.find(dataDirOf(call.config), call.network);
    store?.release(store.leasesOfOthers(valid));
  },

  async status(call): Promise<void> {
    const { checkStatus } = await import("./status.ts");
    checkStatus(call);
  },
});

function ipConfigOf({ ip, range: { subnet, gateway } }: Candidate): IpConfig {
  return { address: Cidr.of(ip, subnet.prefixLength), gateway };
}
