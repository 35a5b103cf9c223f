/**
 * The keys of tuning's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "sets sysctls, MAC, MTU and other properties of the interface",
  goPeer: "containernetworking/plugins plugins/meta/tuning",
  text:
    "Sets kernel parameters in a container's network namespace, and changes its interface: MAC, MTU, promiscuous and all-multicast mode, queue length. Chain it after the plugin that creates the interface.",
  example,
  keys: {
    "sysctl": {
      text: "Kernel parameters, written in this order (see below).",
      type: "object of strings",
      default: "none",
    },
    "mac": {
      text: "MAC of the interface.",
      type: "string",
      default: "unchanged",
      since: "0.8.0",
    },
    "promisc": {
      text:
        "`true`: the interface accepts all frames. `false` means unchanged.",
      type: "boolean",
      default: "unchanged",
      since: "0.8.0",
    },
    "mtu": {
      text: "MTU of the interface. 0 means unchanged.",
      type: "integer, bytes",
      default: "unchanged",
      since: "0.8.0",
    },
    "allmulti": {
      text: "Whether the interface accepts all multicast frames.",
      type: "boolean",
      default: "unchanged",
      since: "1.0.0",
    },
    "txQLen": {
      text: "Length of the transmit queue.",
      type: "integer, packets",
      default: "unchanged",
      since: "1.4.0",
    },
    "dataDir": {
      text: "Directory of the backups.",
      type: "string",
      default: "`/run/cni/tuning`",
      since: "0.9.0",
      names: "directory",
      usual: [
        "/run/cni/tuning",
      ],
    },
    "args": {
      text:
        "`cni` with any of the first six keys. They take precedence; sysctls are added.",
      type: "object",
    },
    "args.cni.sysctl": {
      text: "Kernel parameters of the container, by name.",
    },
    "args.cni.promisc": {
      text: "Whether the interface accepts all frames.",
    },
    "args.cni.mtu": {
      text: "MTU of the interface in bytes.",
    },
    "args.cni.allmulti": {
      text: "Whether the interface accepts all multicast frames.",
    },
    "args.cni.txQLen": {
      text: "Length of the interface's transmit queue in packets.",
    },
    "runtimeConfig": {
      text:
        '`mac`, set by the runtime if the configuration has `"capabilities": { "mac": true }`.',
      type: "object",
    },
  },
};
