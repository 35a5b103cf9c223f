/**
 * REPAIR: the steps of ADD for what the bridge and its port have lost.
 *
 * @module
 */

import type { Call, RepairScope } from "../../cni/plugin.ts";
import { Rollback } from "../../base/rollback.ts";
import type { Result } from "../../cni/result/result.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Mac } from "../../net/mac.ts";
import { ensureForwardingFrom } from "../parts/address/ip_forward.ts";
import { repairMasquerade } from "../parts/firewall/masquerade/steps.ts";
import { sandboxInterfaceOf } from "../parts/link/check_link.ts";
import { withAction } from "../parts/link/configure_link.ts";
import {
  findVethPair,
  repairLink,
  wantedLinkOf,
} from "../parts/link/repair_link.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { ownPartOf, requirePrevResult } from "../parts/sandbox/prev_result.ts";
import { openSandbox } from "../parts/sandbox/sandbox.ts";
import { becomeGateway } from "./attach.ts";
import { ensureBridge } from "./bridge_link.ts";
import type { BridgeConfig } from "./schema.ts";
import { type BridgeSettings, hasVlans, settingsOf } from "./settings.ts";

/**
 * Makes again what is missing, if the veth pair exists: nothing else leads to the
 * container.
 *
 * @throws {Error} If the kernel refuses
 */
export async function repair(
  call: Call<BridgeConfig>,
  scope: RepairScope,
): Promise<void> {
  const settings = settingsOf(call);
  const prevResult = requirePrevResult(call, "Required prevResult missing");
  const result = ownPartOf(prevResult, call.args);
  using host = Rtnl.open(call.hostNetns);
  using sandbox = openSandbox(call.args);
  const pair = findVethPair(host, sandbox, result, call.args.ifName);
  if (pair === undefined) return;
  const { container, end: port } = pair;
  if (scope.sandbox && !settings.leavesContainerDown) {
    repairLink(sandbox, container, wantedLinkOf(result));
  }
  const bridge = repairBridge(host, settings, result);
  await repairPort(host, bridge, port, settings);
  if (settings.checksSpoofing) {
    const { setUpSpoofCheck } = await import("./mac_spoofing.ts");
    // Not the interface's own, which its container can change.
    const { mac } = sandboxInterfaceOf(result, call.args);
    if (mac) {
      const allowed = { hostIfName: port.name, mac: Mac.parse(mac) };
      await setUpSpoofCheck(call.hostNetns, attachmentOf(call), allowed);
    }
  }
  const addresses = result.ips.map(({ address }) => address);
  await repairMasquerade(call, addresses);
  // Nothing is undone: another attachment may already need it.
  const rollback = new Rollback(call.log);
  const [gateway = bridge] = await becomeGateway(
    { call, settings, host, sandbox, rollback },
    bridge,
    result,
  );
  if (!settings.isGateway) return;
  // Last: the host and its containers reach each other without it.
  ensureForwardingFrom(host.netns, addresses, gateway.name);
}

/** Ensures that the bridge exists. A new one gets the MAC that containers know. */
function repairBridge(
  host: Rtnl,
  settings: BridgeSettings,
  { interfaces }: Result,
): Link {
  const isThere = host.link.find(settings.bridge) !== undefined;
  const bridge = ensureBridge(host, settings);
  const { mac: text } =
    interfaces.find(({ name, sandbox }) =>
      name === settings.bridge && !sandbox
    ) ?? {};
  if (isThere || !text) return bridge;
  const mac = Mac.parse(text);
  withAction(`set the MAC of bridge "${bridge.name}"`, () => {
    host.link.set(bridge.index, { mac });
  });
  return { ...bridge, mac };
}

/** Makes a link a port of the bridge again, with the options of the settings. */
async function repairPort(
  host: Rtnl,
  bridge: Link,
  { index, name, isUp, masterIndex, port }: Link,
  settings: BridgeSettings,
): Promise<void> {
  const { hairpin, isolated } = settings;
  const isPort = masterIndex === bridge.index;
  withAction(`make "${name}" a port of "${bridge.name}"`, () => {
    if (!isPort) host.link.set(index, { masterIndex: bridge.index });
    if (!isUp) host.link.set(index, { isUp: true });
    const isAsWanted = isPort && port?.hairpin === hairpin &&
      port.isolated === isolated;
    // A new port has both off.
    if (isAsWanted || !isPort && !hairpin && !isolated) return;
    host.link.set(index, { port: { hairpin, isolated } });
  });
  if (!hasVlans(settings)) return;
  const { setPortVlans } = await import("./port_vlans.ts");
  setPortVlans(host, { index, name }, settings);
}
