/**
 * The keys of tap's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "creates a tap device, for virtual machines",
  goPeer: "containernetworking/plugins plugins/main/tap",
  text:
    "Gives a container an interface whose other end is a program, such as a virtual machine.",
  example,
  keys: {
    "ipam": {
      text: "IPAM plugin.",
      type: "object",
      default: "no addresses",
    },
    "multiQueue": {
      text:
        "Lets a program open several queues. It must open the device in this way.",
      type: "boolean",
      default: "`false`",
    },
    "mtu": {
      text: "MTU of the interface.",
      type: "integer, bytes",
      default: "the kernel's",
    },
    "mac": {
      text: "MAC of the interface.",
      type: "string",
      default: "the kernel's",
    },
    "owner": {
      text: "ID of the user who may open the device without CAP_NET_ADMIN.",
      type: "integer",
      default: "any",
    },
    "group": {
      text:
        "ID of the group whose members may open the device without CAP_NET_ADMIN.",
      type: "integer",
      default: "any",
    },
    "selinuxContext": {
      text: "SELinux context of the device (see below).",
      type: "string",
      default: "the plugin's",
    },
    "bridge": {
      text:
        "Name of a bridge **in the container** that the interface becomes a port of.",
      type: "string",
      default: "none",
      since: "1.4.0",
    },
    "runtimeConfig": {
      text: '`mac`, set by the runtime (`"capabilities": { "mac": true }`).',
      type: "object",
    },
    "dns": {
      text: "Overrides the IPAM plugin's settings.",
      type: "object",
      default: "the IPAM plugin's",
    },
  },
};
