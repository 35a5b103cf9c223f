/**
 * What tools know about the plugins. `deno task schemas` writes it.
 *
 * @module
 */

// deno-fmt-ignore-file

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { metadata as bandwidthBuiltInMetadata } from "../bandwidth/metadata.ts";
import { metadata as bridgeBuiltInMetadata } from "../bridge/metadata.ts";
import { metadata as chainBuiltInMetadata } from "../chain/metadata.ts";
import { metadata as contivk8sBuiltInMetadata } from "../contivk8s/metadata.ts";
import { metadata as debugBuiltInMetadata } from "../debug/metadata.ts";
import { metadata as dhcpBuiltInMetadata } from "../../ipam/dhcp/metadata.ts";
import { metadata as dummyBuiltInMetadata } from "../dummy/metadata.ts";
import { metadata as firewallBuiltInMetadata } from "../firewall/metadata.ts";
import { metadata as flannelBuiltInMetadata } from "../flannel/metadata.ts";
import { metadata as hostDeviceBuiltInMetadata } from "../host_device/metadata.ts";
import { metadata as hostLocalBuiltInMetadata } from "../../ipam/host_local/metadata.ts";
import { metadata as ipvlanBuiltInMetadata } from "../ipvlan/metadata.ts";
import { metadata as loopbackBuiltInMetadata } from "../loopback/metadata.ts";
import { metadata as macvlanBuiltInMetadata } from "../macvlan/metadata.ts";
import { metadata as multusBuiltInMetadata } from "../multus/metadata.ts";
import { metadata as passthruBuiltInMetadata } from "../passthru/metadata.ts";
import { metadata as portmapBuiltInMetadata } from "../portmap/metadata.ts";
import { metadata as ptpBuiltInMetadata } from "../ptp/metadata.ts";
import { metadata as remoteBuiltInMetadata } from "../remote/metadata.ts";
import { metadata as sbrBuiltInMetadata } from "../sbr/metadata.ts";
import { metadata as slaacBuiltInMetadata } from "../../ipam/slaac/metadata.ts";
import { metadata as staticBuiltInMetadata } from "../../ipam/static/metadata.ts";
import { metadata as tapBuiltInMetadata } from "../tap/metadata.ts";
import { metadata as tuningBuiltInMetadata } from "../tuning/metadata.ts";
import { metadata as vlanBuiltInMetadata } from "../vlan/metadata.ts";
import { metadata as vrfBuiltInMetadata } from "../vrf/metadata.ts";
import { metadata as whereaboutsBuiltInMetadata } from "../../ipam/whereabouts/metadata.ts";

/** By type. */
export const METADATA: ReadonlyMap<string, BuiltInMetadata> = new Map([
  bandwidthBuiltInMetadata,
  bridgeBuiltInMetadata,
  chainBuiltInMetadata,
  contivk8sBuiltInMetadata,
  debugBuiltInMetadata,
  dhcpBuiltInMetadata,
  dummyBuiltInMetadata,
  firewallBuiltInMetadata,
  flannelBuiltInMetadata,
  hostDeviceBuiltInMetadata,
  hostLocalBuiltInMetadata,
  ipvlanBuiltInMetadata,
  loopbackBuiltInMetadata,
  macvlanBuiltInMetadata,
  multusBuiltInMetadata,
  passthruBuiltInMetadata,
  portmapBuiltInMetadata,
  ptpBuiltInMetadata,
  remoteBuiltInMetadata,
  sbrBuiltInMetadata,
  slaacBuiltInMetadata,
  staticBuiltInMetadata,
  tapBuiltInMetadata,
  tuningBuiltInMetadata,
  vlanBuiltInMetadata,
  vrfBuiltInMetadata,
  whereaboutsBuiltInMetadata,
].map((metadata) => [metadata.type, metadata]));
