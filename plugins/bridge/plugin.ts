/**
 * bridge: containers as ports of a switch in the host.
 *
 * ```
 *                 host                             containers
 *   ┌───────────────────────────────────┐      ┌───────────────────┐
 *   │         ┌────── vethXXXXXXXXXXX ──┼──────┼─ eth0             │
 *   │         │                         │      │  10.1.2.2/24      │
 *   │  ┌──────┴──────┐                  │      └───────────────────┘
 *   │  │    cni0     │                  │
 *   │  │ 10.1.2.1/24 │                  │      ┌───────────────────┐
 *   │  └──────┬──────┘                  │      │                   │
 *   │         └────── vethYYYYYYYYYYY ──┼──────┼─ eth0             │
 *   │                                   │      │  10.1.2.3/24      │
 *   └───────────────────────────────────┘      └───────────────────┘
 * ```
 *
 * DEL leaves nothing of the attachment behind. The bridge with the gateway's
 * address, the interface `<bridge>.<vlan>` and forwarding stay, also after a
 * failed ADD: as soon as they exist, other attachments may need them.
 *
 * @module
 */

import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { Rollback, type TearDownStep, tryAll } from "../../base/rollback.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import {
  collectVeths,
  deleteVeth,
  type PeerTest,
} from "../parts/link/delete_veth.ts";
import {
  checkCanMasquerade,
  endMasquerade,
  endStaleMasquerades,
  startMasquerade,
} from "../parts/firewall/masquerade/steps.ts";
import {
  ownIpsOf,
  ownPartOf,
  readablePrevResult,
  requirePrevResult,
} from "../parts/sandbox/prev_result.ts";
import { checkIfNameIsFree, openSandbox } from "../parts/sandbox/sandbox.ts";
import {
  asksOverLink,
  withRelease,
} from "../parts/address/sandbox_addresses.ts";
import { describeLink } from "../parts/link/describe_link.ts";
import { describeVeth } from "../parts/link/veth.ts";
import {
  type Adding,
  avoidConflicts,
  becomeGateway,
  configureContainer,
  connectToBridge,
  dropSpoofedFrames,
  leaseRoutedAddresses,
  reserveMac,
} from "./attach.ts";
import { deleteOwnRoutes } from "./gateway.ts";
import { ensureBridge } from "./bridge_link.ts";
import type { BridgeConfig } from "./schema.ts";
import { bridgeNameOf, settingsOf } from "./settings.ts";

/** The plugin. Source: containernetworking/plugins plugins/main/bridge/bridge.go. */
export const bridge: Plugin<BridgeConfig> = definePlugin({
  name: "bridge",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).bridgeSchema(),

  async add(call): Promise<Result> {
    const settings = settingsOf(call);
    using host = Rtnl.open(call.hostNetns);
    using sandbox = openSandbox(call.args);
    checkIfNameIsFree(sandbox, call.args.ifName);
    using _mac = settings.hasChosenMac
      ? await reserveMac(call, host, settings)
      : undefined;
    await using rollback = new Rollback(call.log);
    const adding: Adding = { call, settings, host, sandbox, rollback };

    // Before the bridge, which would stay if the result were refused.
    const early = asksOverLink(call.config)
      ? undefined
      : await leaseRoutedAddresses(adding);
    const link = ensureBridge(host, settings);
    const veth = await connectToBridge(adding, link);
    await dropSpoofedFrames(adding, veth);
    const leased = early ?? await leaseRoutedAddresses(adding);
    const lease = await avoidConflicts(adding, veth, leased);
    const ends = await configureContainer(adding, veth, lease);
    const addresses = lease.ips.map(({ address }) => address);
    await startMasquerade(call, addresses, { veth, rollback });
    const gateway = await becomeGateway(adding, link, lease);
    const { interfaces, container } = describeVeth(
      ends,
      call.args.netns,
      describeLink(host.link.get(link.index)),
    );

    rollback.commit();
    return {
      interfaces: [...interfaces, ...gateway],
      ips: lease.ips.map((ip) => ({ ...ip, interface: container })),
      routes: lease.routes,
      dns: call.config.dns ?? lease.dns,
    };
  },

  async check(call): Promise<void> {
    const settings = settingsOf(call);
    using host = Rtnl.open(call.hostNetns);
    using sandbox = openSandbox(call.args);
    const prevResult = requirePrevResult(call, "Required prevResult missing");
    const result = ownPartOf(prevResult, call.args);
    const { checkAttachment } = await import("./check.ts");
    await checkAttachment({ host, sandbox, call, settings, result });
  },

  repair: async (call, scope) =>
    await (await import("./repair.ts")).repair(call, scope),

  async del(call): Promise<void> {
    using sockets = new DisposableStack();
    const unlink: TearDownStep = [
      `delete interface "${call.args.ifName}"`,
      async () => {
        using host = Rtnl.open(call.hostNetns);
        await deleteVeth(host, call, isPortOf(host, call.config));
      },
    ];
    const steps: TearDownStep[] = [
      // Before the veth pair, so that the kernel's waits for both coincide.
      ["remove the masquerade", () => endMasquerade(call, sockets)],
      unlink,
      ["delete the routes to the addresses", () => {
        const prevResult = readablePrevResult(call);
        if (prevResult === undefined) return;
        const names = prevResult.interfaces.filter(({ sandbox }) => !sandbox)
          .map(({ name }) => name);
        const ips = ownIpsOf(prevResult, call.args);
        deleteOwnRoutes(call, names, ips);
      }],
      // After the veth pair, so that no spoofed frame gets through in between.
      ["remove the rules against MAC spoofing", async () => {
        if (!call.config.macspoofchk) return;
        const { tearDownSpoofCheck } = await import("./mac_spoofing.ts");
        using host = Rtnl.open(call.hostNetns);
        await tearDownSpoofCheck(host, attachmentOf(call));
      }, unlink],
    ];
    await tryAll(withRelease(call, steps, unlink));
  },

  async status(call): Promise<void> {
    const { isLayer3, checksSpoofing } = settingsOf(call);
    if (checksSpoofing) {
      const { checkCanCheckSpoofing } = await import("./mac_spoofing.ts");
      checkCanCheckSpoofing(call.hostNetns);
    }
    if (!isLayer3) return;
    await checkCanMasquerade(call);
    await call.ipam.status();
  },

  async gc(call): Promise<void> {
    const { network, hostNetns, config, validAttachments } = call;
    const endSpoofChecks: TearDownStep = [
      "remove stale rules against MAC spoofing",
      async () => {
        if (!config.macspoofchk || validAttachments === undefined) return;
        const { endStaleSpoofChecks } = await import("./mac_spoofing.ts");
        using host = Rtnl.open(hostNetns);
        await endStaleSpoofChecks(host, network, validAttachments);
      },
    ];
    await tryAll([
      ["remove stale masquerades", () => endStaleMasquerades(call)],
      ...collectVeths(call, endSpoofChecks),
    ]);
  },
});

/**
 * Tells the Go plugin's veth pairs to this bridge from others. Veth pairs to a
 * deleted bridge are no longer ports.
 */
function isPortOf(host: Rtnl, config: BridgeConfig): PeerTest {
  return ({ masterIndex }) =>
    masterIndex === host.link.find(bridgeNameOf(config))?.index;
}
