/**
 * What the keys of this project's plugins are, for tools.
 *
 * @module
 */

import type { PluginKeys } from "../cni/tools/plugin_keys.ts";
import { keys as dhcp } from "../ipam/dhcp/keys.ts";
import { keys as hostLocal } from "../ipam/host_local/keys.ts";
import { keys as staticKeys } from "../ipam/static/keys.ts";
import { keys as whereabouts } from "../ipam/whereabouts/keys.ts";
import { keys as bandwidth } from "./bandwidth/keys.ts";
import { keys as bridge } from "./bridge/keys.ts";
import { keys as chain } from "./chain/keys.ts";
import { keys as contivk8s } from "./contivk8s/keys.ts";
import { keys as debug } from "./debug/keys.ts";
import { keys as dummy } from "./dummy/keys.ts";
import { keys as firewall } from "./firewall/keys.ts";
import { keys as flannel } from "./flannel/keys.ts";
import { keys as hostDevice } from "./host_device/keys.ts";
import { keys as ipvlan } from "./ipvlan/keys.ts";
import { keys as loopback } from "./loopback/keys.ts";
import { keys as macvlan } from "./macvlan/keys.ts";
import { keys as multus } from "./multus/keys.ts";
import { keys as passthru } from "./passthru/keys.ts";
import { keys as portmap } from "./portmap/keys.ts";
import { keys as ptp } from "./ptp/keys.ts";
import { keys as remote } from "./remote/keys.ts";
import { keys as sbr } from "./sbr/keys.ts";
import { keys as tap } from "./tap/keys.ts";
import { keys as tuning } from "./tuning/keys.ts";
import { keys as vlan } from "./vlan/keys.ts";
import { keys as vrf } from "./vrf/keys.ts";

/** Those of all plugins. */
export const KEYS: readonly PluginKeys[] = [
  bandwidth,
  bridge,
  chain,
  contivk8s,
  debug,
  dhcp,
  dummy,
  firewall,
  flannel,
  hostDevice,
  hostLocal,
  ipvlan,
  loopback,
  macvlan,
  multus,
  passthru,
  portmap,
  ptp,
  remote,
  sbr,
  staticKeys,
  tap,
  tuning,
  vlan,
  vrf,
  whereabouts,
];
