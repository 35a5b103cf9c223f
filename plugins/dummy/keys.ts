/**
 * What the keys of dummy's configuration are.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/plugin_keys.ts";

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  type: "dummy",
  summary: "creates an interface that is connected to nothing",
  status: "stable",
  goPeer: "containernetworking/plugins plugins/main/dummy",
  text:
    "Gives a container an interface that no packet leaves, for addresses that it owns without a network.",
  example: {
    "cniVersion": "1.0.0",
    "name": "net1",
    "plugins": [
      {
        "type": "dummy",
        "ipam": {
          "type": "host-local",
          "subnet": "10.1.2.0/24",
        },
      },
    ],
  },
  required: [
    "ipam",
  ],
  keys: {
    "ipam": {
      text: "IPAM plugin. Required.",
      type: "object",
    },
  },
};
