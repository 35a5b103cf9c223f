/**
 * The keys of macvlan's configuration.
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
  summary: "gives the container an interface with its own MAC on a host link",
  goPeer: "containernetworking/plugins plugins/main/macvlan",
  text:
    "Connects containers to the network of one of the host's links. Each container has its own MAC.",
  example,
  keys: {
    "ipam": {
      text:
        "The IPAM plugin. Without it, the interface is up and has no addresses.",
      type: "object",
      default: "none",
    },
    "master": {
      text: "The link whose network the container joins.",
      type: "string",
      default: "the link of the default route",
      names: "interface",
    },
    ...ON_MASTER_KEYS,
    "enabledad": {
      ...ON_MASTER_KEYS.enabledad,
      text:
        "With `false`, IPv6 addresses are not checked for duplicates (see below).",
    },
    "conflictCheck": {
      ...ON_MASTER_KEYS.conflictCheck,
      text:
        "ADD [checks](#address-conflicts) that no other machine uses an address of the container.",
    },
    ...HOST_ACCESS_KEYS,
    "hostAccess": {
      ...HOST_ACCESS_KEYS.hostAccess,
      text:
        "The host and its containers reach each other ([how](#reach-the-containers-from-the-host)).",
    },
    "dns": DNS_KEY,
    "mode": {
      text: "`bridge`, `private`, `vepa` or `passthru` (see below).",
      type: "string",
      default: "`bridge`",
    },
    "mac": {
      text:
        "The container's MAC. `MAC` in CNI_ARGS overrides it, and `runtimeConfig.mac` overrides both.",
      type: "string",
      default: "random",
    },
    "bcqueuelen": {
      text:
        "How many broadcasts may wait for delivery. The kernel uses the largest value of a master's macvlans.",
      type: "integer",
      default: "1000 (the kernel's)",
      since: "1.6.0",
    },
    "runtimeConfig": {
      text: '`mac`, set by the runtime with `"capabilities": { "mac": true }`.',
      type: "object",
    },
    "runtimeConfig.mac": {
      since: "0.8.7",
    },
  },
};
