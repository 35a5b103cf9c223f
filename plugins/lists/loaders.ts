/**
 * Loaders of the plugins. `deno task schemas` writes it.
 *
 * @module
 */

// deno-fmt-ignore-file

import type { Plugin } from "../../cni/plugin.ts";
import type { SpecVersion } from "../../cni/version.ts";

/** By type. */
export const LOADERS: Readonly<Record<string, () => Promise<Plugin>>> = {
  "bandwidth": async () => (await import("../bandwidth/plugin.ts")).bandwidth,
  "bridge": async () => (await import("../bridge/plugin.ts")).bridge,
  "chain": async () => (await import("../chain/plugin.ts")).chain,
  "contivk8s": async () => (await import("../contivk8s/plugin.ts")).contivk8s,
  "debug": async () => (await import("../debug/plugin.ts")).debug,
  "dhcp": async () => (await import("../../ipam/dhcp/plugin.ts")).dhcp,
  "dummy": async () => (await import("../dummy/plugin.ts")).dummy,
  "firewall": async () => (await import("../firewall/plugin.ts")).firewall,
  "flannel": async () => (await import("../flannel/plugin.ts")).flannel,
  "host-device": async () => (await import("../host_device/plugin.ts")).hostDevice,
  "host-local": async () => (await import("../../ipam/host_local/plugin.ts")).hostLocal,
  "ipvlan": async () => (await import("../ipvlan/plugin.ts")).ipvlan,
  "loopback": async () => (await import("../loopback/plugin.ts")).loopback,
  "macvlan": async () => (await import("../macvlan/plugin.ts")).macvlan,
  "multus": async () => (await import("../multus/plugin.ts")).multus,
  "passthru": async () => (await import("../passthru/plugin.ts")).passthru,
  "portmap": async () => (await import("../portmap/plugin.ts")).portmap,
  "ptp": async () => (await import("../ptp/plugin.ts")).ptp,
  "remote": async () => (await import("../remote/plugin.ts")).remote,
  "sbr": async () => (await import("../sbr/plugin.ts")).sbr,
  "slaac": async () => (await import("../../ipam/slaac/plugin.ts")).slaac,
  "static": async () => (await import("../../ipam/static/plugin.ts")).staticIpam,
  "tap": async () => (await import("../tap/plugin.ts")).tap,
  "tuning": async () => (await import("../tuning/plugin.ts")).tuning,
  "vlan": async () => (await import("../vlan/plugin.ts")).vlan,
  "vrf": async () => (await import("../vrf/plugin.ts")).vrf,
  "whereabouts": async () => (await import("../../ipam/whereabouts/plugin.ts")).whereabouts,
};

/** The first supported version of the specification, if it is not the oldest one. */
export const SERVED_SINCE: Readonly<Record<string, SpecVersion>> = {
  "bandwidth": "0.3.0",
  "firewall": "0.4.0",
  "passthru": "0.3.0",
  "slaac": "0.3.0",
  "vrf": "0.3.1",
};
