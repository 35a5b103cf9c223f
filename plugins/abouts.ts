/**
 * What this project's plugins tell of themselves, for tools. Nothing that a
 * plugin's call loads imports it.
 *
 * @module
 */

import type { About } from "../cni/tools/about.ts";
import { about as dhcp } from "../ipam/dhcp/about.ts";
import { about as hostLocal } from "../ipam/host_local/about.ts";
import { about as staticAbout } from "../ipam/static/about.ts";
import { about as whereabouts } from "../ipam/whereabouts/about.ts";
import { about as bandwidth } from "./bandwidth/about.ts";
import { about as bridge } from "./bridge/about.ts";
import { about as chain } from "./chain/about.ts";
import { about as contivk8s } from "./contivk8s/about.ts";
import { about as debug } from "./debug/about.ts";
import { about as dummy } from "./dummy/about.ts";
import { about as firewall } from "./firewall/about.ts";
import { about as flannel } from "./flannel/about.ts";
import { about as hostDevice } from "./host_device/about.ts";
import { about as ipvlan } from "./ipvlan/about.ts";
import { about as loopback } from "./loopback/about.ts";
import { about as macvlan } from "./macvlan/about.ts";
import { about as multus } from "./multus/about.ts";
import { about as passthru } from "./passthru/about.ts";
import { about as portmap } from "./portmap/about.ts";
import { about as ptp } from "./ptp/about.ts";
import { about as remote } from "./remote/about.ts";
import { about as sbr } from "./sbr/about.ts";
import { about as tap } from "./tap/about.ts";
import { about as tuning } from "./tuning/about.ts";
import { about as vlan } from "./vlan/about.ts";
import { about as vrf } from "./vrf/about.ts";

/** In the order in which lists and tables have them. */
export const ABOUTS: readonly About[] = [
  bridge,
  ptp,
  macvlan,
  ipvlan,
  vlan,
  hostDevice,
  tap,
  dummy,
  loopback,
  hostLocal,
  staticAbout,
  dhcp,
  whereabouts,
  portmap,
  firewall,
  bandwidth,
  tuning,
  sbr,
  vrf,
  multus,
  flannel,
  chain,
  passthru,
  remote,
  contivk8s,
  debug,
];

const byType: ReadonlyMap<string, About> = new Map(
  ABOUTS.map((about) => [about.type, about]),
);

/** Finds what one of this project's plugins tells; undefined for other types. */
export function findAbout(type: string): About | undefined {
  return byType.get(type);
}
