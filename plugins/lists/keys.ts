/**
 * The keys of plugins, for tools. `deno task schemas` writes it.
 *
 * @module
 */

// deno-fmt-ignore-file

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";
import { keys as bandwidthTold } from "../bandwidth/keys.ts";
import { keys as bridgeTold } from "../bridge/keys.ts";
import { keys as chainTold } from "../chain/keys.ts";
import { keys as contivk8sTold } from "../contivk8s/keys.ts";
import { keys as debugTold } from "../debug/keys.ts";
import { keys as dhcpTold } from "../../ipam/dhcp/keys.ts";
import { keys as dummyTold } from "../dummy/keys.ts";
import { keys as firewallTold } from "../firewall/keys.ts";
import { keys as flannelTold } from "../flannel/keys.ts";
import { keys as hostDeviceTold } from "../host_device/keys.ts";
import { keys as hostLocalTold } from "../../ipam/host_local/keys.ts";
import { keys as ipvlanTold } from "../ipvlan/keys.ts";
import { keys as loopbackTold } from "../loopback/keys.ts";
import { keys as macvlanTold } from "../macvlan/keys.ts";
import { keys as multusTold } from "../multus/keys.ts";
import { keys as passthruTold } from "../passthru/keys.ts";
import { keys as portmapTold } from "../portmap/keys.ts";
import { keys as ptpTold } from "../ptp/keys.ts";
import { keys as remoteTold } from "../remote/keys.ts";
import { keys as sbrTold } from "../sbr/keys.ts";
import { keys as staticTold } from "../../ipam/static/keys.ts";
import { keys as tapTold } from "../tap/keys.ts";
import { keys as tuningTold } from "../tuning/keys.ts";
import { keys as vlanTold } from "../vlan/keys.ts";
import { keys as vrfTold } from "../vrf/keys.ts";
import { keys as whereaboutsTold } from "../../ipam/whereabouts/keys.ts";

/** In the order of the types. */
export const KEYS: readonly PluginKeys[] = [
  bandwidthTold,
  bridgeTold,
  chainTold,
  contivk8sTold,
  debugTold,
  dhcpTold,
  dummyTold,
  firewallTold,
  flannelTold,
  hostDeviceTold,
  hostLocalTold,
  ipvlanTold,
  loopbackTold,
  macvlanTold,
  multusTold,
  passthruTold,
  portmapTold,
  ptpTold,
  remoteTold,
  sbrTold,
  staticTold,
  tapTold,
  tuningTold,
  vlanTold,
  vrfTold,
  whereaboutsTold,
];
