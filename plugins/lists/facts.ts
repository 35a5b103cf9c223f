/**
 * What tools know about the plugins. `deno task schemas` writes it.
 *
 * @module
 */

// deno-fmt-ignore-file

import type { Facts } from "../../cni/tools/about.ts";
import { facts as bandwidthFacts } from "../bandwidth/facts.ts";
import { facts as bridgeFacts } from "../bridge/facts.ts";
import { facts as chainFacts } from "../chain/facts.ts";
import { facts as contivk8sFacts } from "../contivk8s/facts.ts";
import { facts as debugFacts } from "../debug/facts.ts";
import { facts as dhcpFacts } from "../../ipam/dhcp/facts.ts";
import { facts as dummyFacts } from "../dummy/facts.ts";
import { facts as firewallFacts } from "../firewall/facts.ts";
import { facts as flannelFacts } from "../flannel/facts.ts";
import { facts as hostDeviceFacts } from "../host_device/facts.ts";
import { facts as hostLocalFacts } from "../../ipam/host_local/facts.ts";
import { facts as ipvlanFacts } from "../ipvlan/facts.ts";
import { facts as loopbackFacts } from "../loopback/facts.ts";
import { facts as macvlanFacts } from "../macvlan/facts.ts";
import { facts as multusFacts } from "../multus/facts.ts";
import { facts as passthruFacts } from "../passthru/facts.ts";
import { facts as portmapFacts } from "../portmap/facts.ts";
import { facts as ptpFacts } from "../ptp/facts.ts";
import { facts as remoteFacts } from "../remote/facts.ts";
import { facts as sbrFacts } from "../sbr/facts.ts";
import { facts as staticFacts } from "../../ipam/static/facts.ts";
import { facts as tapFacts } from "../tap/facts.ts";
import { facts as tuningFacts } from "../tuning/facts.ts";
import { facts as vlanFacts } from "../vlan/facts.ts";
import { facts as vrfFacts } from "../vrf/facts.ts";
import { facts as whereaboutsFacts } from "../../ipam/whereabouts/facts.ts";

/** By type. */
export const FACTS: ReadonlyMap<string, Facts> = new Map([
  bandwidthFacts,
  bridgeFacts,
  chainFacts,
  contivk8sFacts,
  debugFacts,
  dhcpFacts,
  dummyFacts,
  firewallFacts,
  flannelFacts,
  hostDeviceFacts,
  hostLocalFacts,
  ipvlanFacts,
  loopbackFacts,
  macvlanFacts,
  multusFacts,
  passthruFacts,
  portmapFacts,
  ptpFacts,
  remoteFacts,
  sbrFacts,
  staticFacts,
  tapFacts,
  tuningFacts,
  vlanFacts,
  vrfFacts,
  whereaboutsFacts,
].map((facts) => [facts.type, facts]));
