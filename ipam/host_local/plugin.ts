/**
 * host-local: addresses from ranges in the configuration, leased in files on
 * this host.
 *
 * The leases are in `/var/lib/cni/networks/<network>/` (`dataDir`), in the Go
 * plugin's format. DEL leaves the directory with its `lock` and
 * `last_reserved_ip.*`. An index of a large directory in `<dataDir>/.index/` keeps
 * ADD and DEL from reading each lease.
 *
 * @module
 */

import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { dataDirOf } from "./config.ts";
import { findRetention } from "./kept/retention.ts";
import type { HostLocalConfig } from "./schema.ts";
import { LeaseStore } from "./store.ts";

/** The plugin. Source: containernetworking/plugins plugins/ipam/host-local/main.go. */
export const hostLocal: Plugin<HostLocalConfig> = definePlugin({
  name: "host-local",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).hostLocalSchema(),

  async add(call): Promise<Result> {
    const { leaseFromRanges } = await import("./add.ts");
    return await leaseFromRanges(call);
  },

  async check(call): Promise<void> {
    const { checkLeases } = await import("./check.ts");
    await checkLeases(call);
  },

  // The ranges do not matter here: leases must end even if the configuration
  // has become invalid since.
  async del(call): Promise<void> {
    using store = await LeaseStore.find(
      dataDirOf(call.config),
      call.network,
      call,
      findRetention(call),
    );
    store?.release(store.leasesOf(call.args));
  },

  async gc(call): Promise<void> {
    const valid = call.validAttachments;
    // A missing list is not an empty list: the valid attachments are unknown.
    if (valid === undefined) return;
    using store = await LeaseStore.find(
      dataDirOf(call.config),
      call.network,
      call,
      findRetention(call),
    );
    store?.collect(valid);
  },

  async status(call): Promise<void> {
    const { checkStatus } = await import("./check.ts");
    checkStatus(call);
  },
});
