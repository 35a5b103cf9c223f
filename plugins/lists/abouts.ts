/**
 * Facts about plugins, for tools. `deno task schemas` writes it.
 *
 * @module
 */

// deno-fmt-ignore-file

import type { About } from "../../cni/tools/about.ts";
import { about as bandwidthTold } from "../bandwidth/about.ts";
import { about as bridgeTold } from "../bridge/about.ts";
import { about as chainTold } from "../chain/about.ts";
import { about as contivk8sTold } from "../contivk8s/about.ts";
import { about as debugTold } from "../debug/about.ts";
import { about as dhcpTold } from "../../ipam/dhcp/about.ts";
import { about as dummyTold } from "../dummy/about.ts";
import { about as firewallTold } from "../firewall/about.ts";
import { about as flannelTold } from "../flannel/about.ts";
import { about as hostDeviceTold } from "../host_device/about.ts";
import { about as hostLocalTold } from "../../ipam/host_local/about.ts";
import { about as ipvlanTold } from "../ipvlan/about.ts";
import { about as loopbackTold } from "../loopback/about.ts";
import { about as macvlanTold } from "../macvlan/about.ts";
import { about as multusTold } from "../multus/about.ts";
import { about as passthruTold } from "../passthru/about.ts";
import { about as portmapTold } from "../portmap/about.ts";
import { about as ptpTold } from "../ptp/about.ts";
import { about as remoteTold } from "../remote/about.ts";
import { about as sbrTold } from "../sbr/about.ts";
import { about as staticTold } from "../../ipam/static/about.ts";
import { about as tapTold } from "../tap/about.ts";
import { about as tuningTold } from "../tuning/about.ts";
import { about as vlanTold } from "../vlan/about.ts";
import { about as vrfTold } from "../vrf/about.ts";
import { about as whereaboutsTold } from "../../ipam/whereabouts/about.ts";

/** In the order of the types. */
export const ABOUTS: readonly About[] = [
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
