/**
 * The keys of ipvlan's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import {
  DNS_KEY,
  HOST_ACCESS_KEYS,
  ON_MASTER_KEYS,
} from "../parts/link/on_master_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "gives the container an interface with the MAC of a host link",
  goPeer: "containernetworking/plugins plugins/main/ipvlan",
  text:
    "Connects containers to the network of one of the host's links. They all have the MAC of that link.",
  example,
  keys: {
    "ipam": {
      text:
        "The IPAM plugin. Required unless a plugin before this one returned addresses.",
      type: "object",
    },
    "master": {
      text:
        "The link whose network the container joins. As a chained plugin, see below.",
      type: "string",
      default: "the link of the default route",
      names: "interface",
    },
    ...ON_MASTER_KEYS,
    ...HOST_ACCESS_KEYS,
    "dns": DNS_KEY,
    "mode": {
      text:
        "`l2`, `l3` or `l3s` (see below). All containers of a master share one mode.",
      type: "string",
      default: "`l2`",
    },
  },
};
