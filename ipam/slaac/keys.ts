/**
 * The keys of slaac's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "waits for addresses from router advertisements",
  text:
    "Lets the kernel assign the IPv6 addresses of a container from the advertisements of the network's router, and waits for them. Use it as the IPAM plugin of bridge, macvlan, ipvlan, vlan, host-device or tap. It needs no daemon and stores nothing. For addresses from a DHCPv6 server, use [dhcp](dhcp.md).",
  example,
  keys: {
    "timeoutSeconds": {
      text:
        "Time limit of ADD, from 1 to 600. Keep it below the runtime's time limit.",
      default: "20",
    },
    "addressGeneration": {
      text:
        "How the kernel chooses the lower half of an address. `eui64`: from the MAC. `random`: anew in each container. `stable-privacy`: from network, interface, and the pod's namespace and name (without them in CNI_ARGS, the container ID), so that a new pod of the same name gets the same address.",
      default: "`eui64`",
    },
    "temporaryAddresses": {
      text:
        "Whether the container also gets temporary addresses, which it prefers for its own connections. The result does not contain them.",
      default: "false",
    },
    "defaultRoute": {
      text:
        "Whether the router becomes a default route. `false` for an additional network of a pod.",
      default: "true",
    },
  },
};
