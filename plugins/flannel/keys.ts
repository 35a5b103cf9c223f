/**
 * The keys of flannel's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "runs bridge or another plugin with the node's flannel subnet",
  goPeer: "flannel-io/cni-plugin",
  text:
    "Connects containers with the subnet that flannel has leased for this node. It builds the configuration of another plugin, usually bridge, and runs it.",
  example,
  keys: {
    "ipam": {
      text:
        "Base of the delegate's `ipam`. Its `ranges` are replaced, its `routes` are kept.",
      type: "object",
      default: "host-local",
    },
    "ipam.routes": {
      text: "Routes of the container.",
    },
    "subnetFile": {
      text: "The file that flanneld writes.",
      type: "path",
      default: "`/run/flannel/subnet.env`",
      names: "path",
      usual: [
        "/run/flannel/subnet.env",
      ],
    },
    "dataDir": {
      text: "Where the delegate's configurations are saved.",
      type: "path",
      default: "`/var/lib/cni/flannel`",
      names: "directory",
      usual: [
        "/var/lib/cni/flannel",
      ],
    },
    "delegate": {
      text:
        "Keys of the delegate's configuration (see below). `type` is the plugin.",
      type: "object",
      default: "bridge",
    },
    "runtimeConfig": {
      text: "Passed on to the delegate, in place of its own.",
      type: "object",
    },
  },
};
