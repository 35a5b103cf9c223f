/**
 * dummy: an interface without a connection. A container uses it for addresses that it
 * owns without a network, such as a service's address.
 *
 * ```
 *         host                          container
 *   ┌──────────────────┐          ┌──────────────────────┐
 *   │                  │          │  eth0 (dummy)        │
 *   │                  │          │  10.1.2.5/24         │
 *   └──────────────────┘          └──────────────────────┘
 * ```
 *
 * DEL leaves no objects behind.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { Rollback } from "../../base/rollback.ts";
import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import type { NetConf } from "../../cni/config/types.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import {
  configureInterface,
  leaseAddresses,
} from "../parts/address/sandbox_addresses.ts";
import {
  createSandboxLink,
  detach,
  resultOf,
} from "../parts/link/sandbox_link.ts";
import { checkIfNameIsFree, openSandbox } from "../parts/sandbox/sandbox.ts";

/** The kind of link. */
const KIND = "dummy";

/** The plugin. Source: containernetworking/plugins plugins/main/dummy/dummy.go. */
export const dummy: Plugin = definePlugin({
  name: "dummy",
  versions: SPEC_VERSIONS,
  configSchema: async () =>
    (await import("../../cni/config/types.ts")).netConf({}),

  async add(call): Promise<Result> {
    checkHasIpam(call.config);
    using sandbox = openSandbox(call.args);
    checkIfNameIsFree(sandbox, call.args.ifName);
    await using rollback = new Rollback(call.log);

    const adding = { call, sandbox, rollback };
    const link = createSandboxLink(sandbox, adding, { info: { kind: KIND } });
    const lease = await leaseAddresses(call, rollback);
    configureInterface(sandbox, link, lease, {});
    rollback.commit();
    return resultOf(call, link, lease);
  },

  async check(call): Promise<void> {
    checkHasIpam(call.config);
    using sandbox = openSandbox(call.args);
    const { checkSandboxLink } = await import(
      "../parts/link/check_sandbox_link.ts"
    );
    const missing = "dummy: Required prevResult missing";
    await checkSandboxLink(call, { sandbox, kind: KIND, missing });
  },

  repair: async (call, scope) =>
    (await import("../parts/link/repair_link.ts")).repairInSandbox(call, scope),

  async del(call): Promise<void> {
    await detach(call, KIND);
  },

  async status(call): Promise<void> {
    await call.ipam.status();
  },

  async gc(call): Promise<void> {
    if (call.config.ipam?.type) await call.ipam.gc();
  },
});

/** @throws {CniError} 7 without an IPAM plugin */
function checkHasIpam({ ipam }: NetConf): void {
  if (ipam?.type) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    "dummy interface requires an IPAM configuration",
  );
}
