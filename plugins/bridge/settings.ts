/**
 * The settings of a call, checked before any change.
 *
 * @module
 */

import { checkInterfaceName } from "../../cni/call/args.ts";
import { invalidConfig } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import { Mac } from "../../net/mac.ts";
import { firstMac, macInArgs, macInConfig } from "../parts/link/mac.ts";
import type { BridgeConfig } from "./schema.ts";
import { MAX_VLAN, trunkRangesOf, type VlanRange } from "./trunk.ts";

/** Default name of the bridge. */
const DEFAULT_BRIDGE = "cni0";

/** Settings, with defaults filled in. */
export interface BridgeSettings {
  /** Name of the bridge. */
  readonly bridge: string;
  /** Whether the container gets addresses. */
  readonly isLayer3: boolean;
  /** Whether the bridge has the gateway's address. */
  readonly isGateway: boolean;
  /** Whether the container's default routes go through the bridge. */
  readonly isDefaultGateway: boolean;
  /** Whether to replace conflicting addresses of the bridge. */
  readonly forceAddress: boolean;
  /** In bytes; undefined for the kernel's default. */
  readonly mtu: number | undefined;
  /** Whether frames may leave through the port by which they arrived. */
  readonly hairpin: boolean;
  /** Whether the bridge accepts all frames. */
  readonly promiscuous: boolean;
  /** Whether the port is isolated from other isolated ports. */
  readonly isolated: boolean;
  /** The VLAN of untagged frames; undefined for none. */
  readonly vlan: number | undefined;
  /** VLANs that the container tags itself. */
  readonly trunk: readonly VlanRange[];
  /** Whether the port stays in the bridge's default VLAN. */
  readonly preservesDefaultVlan: boolean;
  /**
   * Whether frames with another source MAC than the container's are dropped.
   */
  readonly checksSpoofing: boolean;
  /** Whether to wait for duplicate address detection of IPv6 addresses. */
  readonly detectsDuplicates: boolean;
  /** Whether to ask the network about an address before the container uses it. */
  readonly checksConflicts: boolean;
  /** Whether the container's interface stays down. */
  readonly leavesContainerDown: boolean;
  /** MAC of the container's end; random unless configured. */
  readonly mac: Mac;
  /** Whether the MAC is configured. */
  readonly hasChosenMac: boolean;
}

/**
 * Reads the settings of a call.
 *
 * Source: containernetworking/plugins plugins/main/bridge/bridge.go
 * `loadNetConf` and `cmdAdd`, with their error texts.
 *
 * @throws {CniError} 7 if the configuration contradicts itself or has an
 *   invalid value; 4 if CNI_ARGS does
 */
export function settingsOf(call: Call<BridgeConfig>): BridgeSettings {
  const { config } = call;
  const { mtu = 0, vlan = 0 } = config;
  const mac = macOf(call);
  const settings: BridgeSettings = {
    bridge: bridgeNameOf(config),
    isLayer3: Boolean(config.ipam?.type),
    isGateway: config.isGateway === true || config.isDefaultGateway === true,
    isDefaultGateway: config.isDefaultGateway === true,
    forceAddress: config.forceAddress === true,
    mtu: mtu > 0 ? mtu : undefined,
    hairpin: config.hairpinMode === true,
    promiscuous: config.promiscMode === true,
    isolated: config.portIsolation === true,
    vlan: checkedVlan(vlan),
    trunk: trunkRangesOf(config.vlanTrunk ?? []),
    preservesDefaultVlan: config.preserveDefaultVlan === true,
    checksSpoofing: config.macspoofchk === true,
    detectsDuplicates: config.enabledad === true,
    checksConflicts: config.conflictCheck === true,
    leavesContainerDown: config.disableContainerInterface === true,
    mac: mac ?? Mac.random(),
    hasChosenMac: mac !== undefined,
  };
  checkTogether(settings);
  return settings;
}

/** Returns the name of the bridge, including for DEL. */
export function bridgeNameOf({ bridge }: BridgeConfig): string {
  return bridge || DEFAULT_BRIDGE;
}

/** Reports whether the bridge needs VLAN filtering. */
export function hasVlans(
  { vlan, trunk }: Pick<BridgeSettings, "vlan" | "trunk">,
): boolean {
  return vlan !== undefined || trunk.length > 0;
}

/** Returns the name of the host's interface in a VLAN. */
export function vlanGatewayNameOf(
  { bridge }: Pick<BridgeSettings, "bridge">,
  vlan: number,
): string {
  return `${bridge}.${vlan}`;
}

function checkedVlan(vlan: number): number | undefined {
  if (vlan < 0 || vlan > MAX_VLAN) {
    throw invalidConfig(
      `invalid VLAN ID ${vlan} (must be between 0 and ${MAX_VLAN})`,
    );
  }
  return vlan === 0 ? undefined : vlan;
}

function checkTogether(settings: BridgeSettings): void {
  if (settings.isLayer3 && settings.leavesContainerDown) {
    throw invalidConfig(
      "cannot use IPAM when DisableContainerInterface flag is set",
    );
  }
  if (settings.hairpin && settings.promiscuous) {
    throw invalidConfig(
      "cannot set hairpin mode and promiscuous mode at the same time",
    );
  }
  const { bridge, vlan, isGateway, isLayer3 } = settings;
  checkName(bridge);
  if (isLayer3 && isGateway && vlan !== undefined) {
    checkName(vlanGatewayNameOf(settings, vlan));
  }
}

/** Checks the name of an interface to create. */
function checkName(name: string): void {
  const message = `Cannot use "${name}" as the name of an interface`;
  try {
    checkInterfaceName(name);
  } catch (error) {
    throw invalidConfig(message, { cause: error });
  }
  if (!name.includes("%")) return;
  throw invalidConfig(
    `${message}: the kernel would replace the % with a number`,
  );
}

/**
 * Reads the container's MAC. The runtime's takes precedence over the
 * configuration's, and both over CNI_ARGS.
 */
function macOf(
  { args, config: { args: configArgs, runtimeConfig } }: Call<BridgeConfig>,
): Mac | undefined {
  return firstMac(
    macInConfig(runtimeConfig?.mac),
    macInConfig(configArgs?.cni?.mac),
    macInArgs(args.args),
  );
}
