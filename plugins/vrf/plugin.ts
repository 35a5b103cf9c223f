/**
 * vrf: puts the container's interface into a virtual routing and forwarding domain
 * (VRF). Its packets are routed only by the VRF's table, so networks with the same
 * addresses do not conflict. Chained after the plugin that created the interface.
 *
 * ```
 *     container
 *   ┌─────────────────────────────────────────────┐
 *   │          ┌─ blue, table 1 ─────────────────┐│
 *   │   net1 ──┤  10.9.0.0/24 dev net1           ││
 *   │          │  default via 10.9.0.1 dev net1  ││
 *   │          └─────────────────────────────────┘│
 *   │   eth0      table main                      │
 *   └─────────────────────────────────────────────┘
 * ```
 *
 * ADD creates the VRF if the container lacks it, and keeps the interface's addresses
 * and routes.
 *
 * DEL removes the interface from the VRF, with its addresses and routes. The VRF is
 * deleted with its last interface.
 *
 * @module
 */

import { checkInterfaceName } from "../../cni/call/args.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { Rollback, throwAll, tryAll } from "../../base/rollback.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { listVersionsFrom } from "../../cni/version.ts";
import {
  lockSandbox,
  lockSandboxIfPossible,
} from "../parts/sandbox/lock_netns.ts";
import {
  isOfAnotherPod,
  ownPartOf,
  requirePrevResult,
} from "../parts/sandbox/prev_result.ts";
import { findSandbox, openSandbox } from "../parts/sandbox/sandbox.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import { changeMaster, configurationOf, readConfiguration } from "./master.ts";
import type { VrfConfig } from "./schema.ts";
import {
  checkHasNoMaster,
  ensureVrf,
  findVrf,
  getLink,
  portsOf,
} from "./vrf_link.ts";

/** The plugin. Source: containernetworking/plugins plugins/meta/vrf. */
export const vrf: Plugin<VrfConfig> = definePlugin({
  name: "vrf",
  versions: listVersionsFrom("0.3.1"),
  configSchema: async () => (await import("./schema.ts")).vrfSchema(),

  add: (call) => join(call),

  async check(call): Promise<void> {
    const name = vrfNameOf(call.config);
    requirePrevResult(call, NOT_CHAINED);
    const { checkPort } = await import("./check.ts");
    using sandbox = openSandbox(call.args);
    checkPort(sandbox, call.args, { name, table: call.config.table });
  },

  // The steps of ADD. The VRF's routes are the routes of the interface's plugin.
  async repair(call, scope): Promise<void> {
    if (scope.sandbox) await join(call);
  },

  async del(call): Promise<void> {
    const { log, args: { ifName }, config: { vrfname = "" } } = call;
    using sandbox = findSandbox(call);
    if (sandbox === undefined) return;
    using _lock = await lockSandboxIfPossible(sandbox, call);
    if (isOfAnotherPod(sandbox, call)) return;
    const vrf = vrfname === "" ? undefined : findVrf(sandbox, vrfname);
    if (vrf === undefined) return;
    await tryAll([
      [`take "${ifName}" out of "${vrfname}"`, () => {
        const link = portsOf(sandbox, vrf).find(({ name }) => name === ifName);
        if (link === undefined) return;
        const configuration = readConfiguration(sandbox, link);
        const out = { masterIndex: 0, from: vrf.table, to: Table.Main };
        for (const problem of changeMaster(sandbox, configuration, out)) {
          log.warn("Cannot restore", { problem: describeError(problem) });
        }
      }],
      [`delete VRF "${vrfname}"`, () => {
        if (portsOf(sandbox, vrf).length > 0) return;
        sandbox.link.ensureGone(vrf.index);
      }],
    ]);
  },
});

/**
 * Puts the interface into the VRF, with its addresses and routes.
 *
 * @returns prevResult
 */
async function join(call: Call<VrfConfig>): Promise<Result> {
  const name = vrfNameOf(call.config);
  const prevResult = requirePrevResult(call, NOT_CHAINED);
  using sandbox = openSandbox(call.args);
  using _lock = await lockSandbox(sandbox, call);
  const link = getLink(sandbox, call.args.ifName);
  await using rollback = new Rollback(call.log);
  const vrf = ensureVrf(sandbox, name, call.config.table || 0, rollback);
  checkHasNoMaster(sandbox, link, vrf);
  // The kernel deleted the configuration that a killed ADD did not restore.
  const configuration = link.masterIndex === vrf.index
    ? configurationOf(ownPartOf(prevResult, call.args), link)
    : readConfiguration(sandbox, link);
  rollback.onFailure(`take "${link.name}" out of "${name}"`, () => {
    if (link.masterIndex !== undefined) return;
    const back = { masterIndex: 0, from: Table.Main, to: Table.Main };
    const failures = changeMaster(sandbox, configuration, back);
    throwAll(failures, `${failures.length} objects cannot be restored`);
  });
  const into = { masterIndex: vrf.index, from: Table.Main, to: vrf.table };
  const failures = changeMaster(sandbox, configuration, into);
  throwAll(failures, `${failures.length} objects cannot be restored`);
  rollback.commit();
  return prevResult;
}

/** Error text for a call without prevResult; clients compare it verbatim. */
const NOT_CHAINED = "missing prevResult from earlier plugin";

/** @throws {CniError} 7 if the name is missing or the kernel cannot use it */
function vrfNameOf({ vrfname = "" }: VrfConfig): string {
  try {
    checkInterfaceName(vrfname);
    if (!vrfname.includes("%")) return vrfname;
    throw new RangeError("the kernel would replace the % with a number");
  } catch (cause) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      "configuration is expected to have a valid vrf name",
      { cause },
    );
  }
}
