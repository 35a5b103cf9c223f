/**
 * What tools know about bridge. Its calls never load this file.
 *
 * @module
 */

import type { BuiltInMetadata } from "../../metadata/plugin_metadata.ts";
import { listOf } from "../../metadata/problem.ts";
import { findValue, type JsonObject } from "../../base/json/json.ts";
import { GATEWAY_KEYS, lint } from "./lint.ts";
import { vlanGatewayNameOf } from "./settings.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { linkNeed, VETH } from "../parts/link/link_needs.ts";
import { ipamOf } from "../../cni/config/ipam.ts";

const BRIDGE = { key: "bridge", usual: "cni0" };

/** See {@linkcode BuiltInMetadata}. */
export const metadata: BuiltInMetadata = {
  type: "bridge",
  kind: "interface",
  status: "stable",
  ipam: "possible",
  makesInterface: true,
  network: {
    joins: "node",
    hasGateway,
    sharedLink: BRIDGE,
    segment: {
      link: BRIDGE,
      vlan: "vlan",
      unless: [...GATEWAY_KEYS, "vlanTrunk"],
    },
    routesByGateway: (conf) =>
      findValue(conf, "isDefaultGateway") === true && !hasDefaultRoute(conf),
    gatewayLink: (conf) => {
      if (!hasGateway(conf)) return undefined;
      const bridge = String(findValue(conf, BRIDGE.key) || BRIDGE.usual);
      const vlan = Number(findValue(conf, "vlan") ?? 0);
      return {
        name: vlan === 0 ? bridge : vlanGatewayNameOf({ bridge }, vlan),
        replaces: findValue(conf, "forceAddress") === true,
      };
    },
  },
  differences: [{
    uses: /"ipMasq":true/i,
    text: "after a rollback, Go plugins up to 1.5 leave an nftables rule",
  }, {
    uses: /"vlan"(?=:[1-9])|"vlanTrunk"(?=:\[\{)/i,
    text: "VLAN filtering is also enabled on an existing bridge",
  }],
  start: { rank: 1, keys: startingKeys, addsRoutes: true },
  lint,
  needs: [
    VETH,
    linkNeed("bridge", "bridge", { kind: "bridge" }),
    {
      name: "VLAN filtering",
      module: "bridge (CONFIG_BRIDGE_VLAN_FILTERING)",
      isNeeded: (conf) =>
        ["vlan", "vlanTrunk"].some((key) => Boolean(findValue(conf, key))),
      probe: (netns) => {
        using rtnl = Rtnl.open(netns);
        rtnl.link.addBridge({ name: "p-filtering", vlanFiltering: true });
      },
    },
  ],
  keys: async () => (await import("./keys.ts")).keys,
  orphans: async () => (await import("./orphans.ts")).orphans,
};

/** Reports whether IPAM has the default route of IPv4 already. */
function hasDefaultRoute(conf: JsonObject): boolean {
  return listOf(findValue(ipamOf(conf), "routes"))
    .some(({ dst, gw }) => dst === "0.0.0.0/0" && Boolean(gw));
}

function hasGateway(conf: JsonObject): boolean {
  return GATEWAY_KEYS.some((key) => findValue(conf, key) === true);
}

/** Longest name of a link, in bytes. */
const LINK_NAME = 15;

/** A bridge of the network's own, if its name is short enough. */
function startingKeys(network: string): JsonObject {
  const bridge = `cni-${network}`.replace(/[^\w.-]/g, "");
  return {
    bridge: bridge.length <= LINK_NAME ? bridge : "cni0",
    isDefaultGateway: true,
    ipMasq: true,
    hairpinMode: true,
  };
}
