/**
 * What a configuration asks for, checked before anything is made.
 *
 * @module
 */

import { checkInterfaceName, loadArgs } from "../../cni/args.ts";
import { CniError, ErrorCode } from "../../cni/error.ts";
import type { Call } from "../../cni/plugin.ts";
import { Mac } from "../../net/mac.ts";
import type { BridgeConfig } from "./config.ts";
import { MAX_VLAN, trunkRangesOf, type VlanRange } from "./trunk.ts";

/** The bridge that is meant where none is named. */
const DEFAULT_BRIDGE = "cni0";

/** What is asked for; what the configuration leaves out is filled in. */
export interface BridgeSettings {
  /** Name of the bridge. */
  readonly bridge: string;
  /** Whether the container gets addresses. */
  readonly isLayer3: boolean;
  /** Whether the bridge has the gateway's address. */
  readonly isGateway: boolean;
  /** Whether the container's default routes lead there. */
  readonly isDefaultGateway: boolean;
  /** Whether other addresses of the bridge may make way for the gateway's. */
  readonly forceAddress: boolean;
  /** In bytes; the kernel's default if undefined. */
  readonly mtu: number | undefined;
  /** Whether frames may leave by the port that they came in by. */
  readonly hairpin: boolean;
  /** Whether the bridge takes in all frames. */
  readonly promiscuous: boolean;
  /** Whether the port is cut off from others that are. */
  readonly isolated: boolean;
  /** The VLAN of frames without a tag; undefined for none. */
  readonly vlan: number | undefined;
  /** VLANs that the container tags itself. */
  readonly trunk: readonly VlanRange[];
  /** Whether the port stays in the VLAN that the bridge gives all ports. */
  readonly preservesDefaultVlan: boolean;
  /** Whether frames with another sender than the container are dropped. */
  readonly checksSpoofing: boolean;
  /** Whether IPv6 addresses are used only once nobody else has them. */
  readonly detectsDuplicates: boolean;
  /** Whether the container's interface stays down. */
  readonly leavesContainerDown: boolean;
  /** The container's; one of chance if none is asked for. */
  readonly mac: Mac;
}

/**
 * Reads what a call asks for.
 *
 * Source: containernetworking/plugins plugins/main/bridge/bridge.go
 * `loadNetConf` and `cmdAdd`, whose texts these are.
 *
 * @throws {CniError} 7 if the configuration contradicts itself or has a value
 * that cannot be; 4 if CNI_ARGS do
 */
export function settingsOf(call: Call<BridgeConfig>): BridgeSettings {
  const { config } = call;
  const { mtu = 0, vlan = 0 } = config;
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
    leavesContainerDown: config.disableContainerInterface === true,
    mac: macOf(call) ?? Mac.random(),
  };
  checkTogether(settings);
  return settings;
}

/** Returns the name of the bridge, which a tear-down needs as well. */
export function bridgeNameOf({ bridge }: BridgeConfig): string {
  return bridge || DEFAULT_BRIDGE;
}

/** Says whether the bridge must tell VLANs apart. */
export function hasVlans(
  { vlan, trunk }: Pick<BridgeSettings, "vlan" | "trunk">,
): boolean {
  return vlan !== undefined || trunk.length > 0;
}

/** Returns the name of the interface through which the host is in a VLAN. */
export function vlanGatewayNameOf(
  { bridge }: Pick<BridgeSettings, "bridge">,
  vlan: number,
): string {
  return `${bridge}.${vlan}`;
}

function refuse(message: string, cause?: unknown): CniError {
  const options = cause === undefined ? {} : { cause };
  return new CniError(ErrorCode.InvalidNetworkConfig, message, options);
}

function checkedVlan(vlan: number): number | undefined {
  if (vlan < 0 || vlan > MAX_VLAN) {
    throw refuse(
      `invalid VLAN ID ${vlan} (must be between 0 and ${MAX_VLAN})`,
    );
  }
  return vlan === 0 ? undefined : vlan;
}

function checkTogether(settings: BridgeSettings): void {
  if (settings.isLayer3 && settings.leavesContainerDown) {
    throw refuse("cannot use IPAM when DisableContainerInterface flag is set");
  }
  if (settings.hairpin && settings.promiscuous) {
    throw refuse(
      "cannot set hairpin mode and promiscuous mode at the same time",
    );
  }
  const { bridge, vlan, isGateway, isLayer3 } = settings;
  checkName(bridge);
  if (isLayer3 && isGateway && vlan !== undefined) {
    checkName(vlanGatewayNameOf(settings, vlan));
  }
}

/** Checks the name of an interface that is to be made. */
function checkName(name: string): void {
  const message = `Cannot use "${name}" as the name of an interface`;
  try {
    checkInterfaceName(name);
  } catch (error) {
    throw refuse(message, error);
  }
  if (!name.includes("%")) return;
  throw refuse(`${message}: the kernel would put a number in place of the %`);
}

/**
 * Reads the container's MAC. The runtime's word counts more than the
 * configuration's, and that more than CNI_ARGS.
 */
function macOf(
  { args, config: { args: configArgs, runtimeConfig } }: Call<BridgeConfig>,
): Mac | undefined {
  const { MAC } = loadArgs<{ MAC: string }>(args.args, { MAC: String });
  const { InvalidEnvironment, InvalidNetworkConfig } = ErrorCode;
  const [text, code] = [
    [runtimeConfig?.mac, InvalidNetworkConfig] as const,
    [configArgs?.cni?.mac, InvalidNetworkConfig] as const,
    [MAC, InvalidEnvironment] as const,
  ].find(([text]) => text) ?? [];
  if (!text) return undefined;
  try {
    return checkedMac(Mac.parse(text));
  } catch (error) {
    const message = `Cannot use MAC "${text}"`;
    throw new CniError(code ?? InvalidNetworkConfig, message, { cause: error });
  }
}

/** The kernel refuses these two, when all else is made. */
function checkedMac(mac: Mac): Mac {
  if (mac.isMulticast) throw new RangeError("it is a group's");
  if (/^0*$/.test(mac.hex)) throw new RangeError("it is nobody's");
  return mac;
}
