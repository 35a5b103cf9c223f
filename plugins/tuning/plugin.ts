/**
 * tuning: sets kernel parameters of a container's network namespace, and
 * changes its interface. Chained after the plugin that created the interface.
 *
 * ```
 *     container
 *   ┌──────────────────────────────────────┐
 *   │ /proc/sys/net/core/somaxconn = 500   │
 *   │                                      │
 *   │ eth0: MAC, MTU, promiscuous,         │
 *   │       all-multicast, queue length    │
 *   └──────────────────────────────────────┘
 *   /run/cni/tuning/CONTAINER_eth0.json: eth0 before ADD
 * ```
 *
 * DEL restores the interface. Kernel parameters keep their values, because they
 * disappear with the namespace.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { Rollback } from "../../base/rollback.ts";
import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Interface, Result } from "../../cni/result/result.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { requirePrevResult } from "../parts/sandbox/prev_result.ts";
import { openSandbox } from "../parts/sandbox/sandbox.ts";
import { checkAllowed } from "./allowlist.ts";
import { removeStaleBackups } from "./backup.ts";
import type { LinkSettings } from "../parts/link/link_settings.ts";
import type { TuningConfig } from "./schema.ts";
import { settingsOf } from "./settings.ts";
import { type Sysctl, writeSysctls } from "./sysctls.ts";
import { restoreLink, tuneLink } from "./tune_link.ts";

/** The plugin. Source: containernetworking/plugins plugins/meta/tuning/tuning.go. */
export const tuning: Plugin<TuningConfig> = definePlugin({
  name: "tuning",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).tuningSchema(),

  async add(call): Promise<Result> {
    const { sysctls, link } = settingsOf(call);
    await checkAllowed(sysctls);
    const prevResult = requirePrevResult(call, NOT_CHAINED);
    using sandbox = openSandbox(call.args);
    using _mac = link.mac === undefined
      ? undefined
      : await (await import("./free_mac.ts"))
        .reserveMac(call, sandbox, link.mac);
    await using rollback = new Rollback(call.log);
    writeSysctls(sandbox.netns, sysctls, rollback);
    tuneLink(sandbox, link, call, rollback);
    await forgetIgnored(sandbox, sysctls, call.args.ifName);
    rollback.commit();
    return withSettings(prevResult, call.args.ifName, link);
  },

  async check(call): Promise<void> {
    const { sysctls, link } = settingsOf(call);
    requirePrevResult(call, NOT_CHAINED);
    const { checkSettings } = await import("./check.ts");
    using sandbox = openSandbox(call.args);
    await checkSettings(sandbox, call.args.ifName, { sysctls, link });
  },

  repair: async (call, scope) =>
    await (await import("./repair.ts")).repair(call, scope),

  del: restoreLink,

  async status(call): Promise<void> {
    const { sysctls } = settingsOf(call);
    try {
      await checkAllowed(sysctls);
    } catch (error) {
      const message = `Cannot serve ADD of network "${call.network}"`;
      const { PluginNotAvailable } = ErrorCode;
      throw new CniError(PluginNotAvailable, message, { cause: error });
    }
  },

  gc: removeStaleBackups,
});

/** Error text for a call without prevResult; clients compare it verbatim. */
const NOT_CHAINED = "Required prevResult missing";

/**
 * Deletes addresses and routes from routers whose advertisements the kernel now
 * ignores.
 */
async function forgetIgnored(
  sandbox: Rtnl,
  sysctls: readonly Sysctl[],
  ifName: string,
): Promise<void> {
  const place = `net/ipv6/conf/${ifName}/`;
  for (const { key, value } of sysctls) {
    if (!key.startsWith(place) || value.trim() !== "0") continue;
    const { forgetLearned } = await import("./learned.ts");
    forgetLearned(sandbox, ifName, key.slice(place.length));
  }
}

/** Returns the result with the interface's new MAC and MTU. */
function withSettings(
  result: Result,
  ifName: string,
  { mac, mtu }: LinkSettings,
): Result {
  const named = result.interfaces.filter(({ name }) => name === ifName);
  const inside = named.filter(({ sandbox }) => sandbox);
  const own = inside.length > 0 ? inside : named;
  const change = (one: Interface): Interface => ({
    ...one,
    mac: mac?.toString() ?? one.mac,
    mtu: one.mtu && (mtu ?? one.mtu),
  });
  const interfaces = result.interfaces.map((one) =>
    own.includes(one) ? change(one) : one
  );
  return { ...result, interfaces };
}
