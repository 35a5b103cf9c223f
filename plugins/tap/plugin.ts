/**
 * tap: an interface with a program, such as a virtual machine monitor, at its other
 * end.
 *
 * ```
 *                          container
 *   ┌───────────────────────────────────────────────────────┐
 *   │  ┌──────────────┐             ┌─────────────────────┐ │
 *   │  │ eth0 (tap)   │             │ a program, such as  │ │
 *   │  │ 10.1.2.5/24  ├─────────────┤ QEMU, opens "eth0"  │ │
 *   │  └──────┬───────┘             │ by /dev/net/tun     │ │
 *   │         └ port of a bridge,   └─────────────────────┘ │
 *   │           with `bridge`                               │
 *   └───────────────────────────────────────────────────────┘
 * ```
 *
 * DEL leaves no objects behind.
 *
 * @module
 */

import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import { emptyResult, type Result } from "../../cni/result/result.ts";
import { Rollback } from "../../base/rollback.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { macOf } from "../parts/link/mac.ts";
import {
  configureInterface,
  leaseAddresses,
} from "../parts/address/sandbox_addresses.ts";
import { detach, resultOf } from "../parts/link/sandbox_link.ts";
import { checkIfNameIsFree, openSandbox } from "../parts/sandbox/sandbox.ts";
import { createTapLink, KIND } from "./create.ts";
import type { TapConfig } from "./schema.ts";

/** The plugin. Source: containernetworking/plugins plugins/main/tap/tap.go. */
export const tap: Plugin<TapConfig> = definePlugin({
  name: "tap",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).tapSchema(),

  async add(call): Promise<Result> {
    const { args, config } = call;
    const mac = macOf(call);
    using sandbox = openSandbox(args);
    checkIfNameIsFree(sandbox, args.ifName);
    await using rollback = new Rollback(call.log);

    const link = createTapLink({ call, sandbox, rollback }, mac);
    const lease = config.ipam?.type
      ? await leaseAddresses(call, rollback)
      : emptyResult();
    configureInterface(sandbox, link, lease, {});
    rollback.commit();
    const dns = config.dns ?? lease.dns;
    return { ...resultOf(call, link, lease), dns };
  },

  async check(call): Promise<void> {
    using sandbox = openSandbox(call.args);
    const { checkSandboxLink } = await import(
      "../parts/link/check_sandbox_link.ts"
    );
    const { checkSettings } = await import("./check.ts");
    await checkSandboxLink(call, {
      sandbox,
      kind: KIND,
      missing: "Required prevResult missing",
      more: (link, differences) =>
        checkSettings(differences, sandbox, link, call.config),
    });
  },

  repair: async (call, scope) =>
    (await import("../parts/link/repair_link.ts")).repairInSandbox(call, scope),

  async del(call): Promise<void> {
    await detach(call, KIND);
  },

  async status(call): Promise<void> {
    macOf(call);
    if (call.config.ipam?.type) await call.ipam.status();
  },

  async gc(call): Promise<void> {
    if (call.config.ipam?.type) await call.ipam.gc();
  },
});
