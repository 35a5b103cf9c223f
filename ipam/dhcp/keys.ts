/**
 * The keys of dhcp's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "leases addresses from a DHCP server, through a daemon",
  goPeer: "containernetworking/plugins plugins/ipam/dhcp",
  text:
    "Gets a container's addresses from a DHCP server of its network, for IPv4, IPv6 or both. Use it as the IPAM plugin of bridge, macvlan, ipvlan, vlan or host-device. It does not work with ptp, which needs the address before it creates the link.",
  example,
  keys: {
    "daemonSocketPath": {
      text: "The daemon's socket.",
      type: "string",
      default: "`/run/cni/dhcp.sock`",
      since: "0.8.0",
      names: "socket",
      usual: [
        "/run/cni/dhcp.sock",
        "/var/run/cni/dhcp.sock",
      ],
    },
    "family": {
      text:
        '`4`, `6` or `"both"`: the address families. The Go plugin does not have this key.',
      default: "4",
    },
    "defaultRoute": {
      text:
        "Whether the IPv6 router becomes a default route. `false` for an additional network of a pod. Only with IPv6: in IPv4, the server sends the routes.",
      default: "true",
    },
    "priority": {
      text: "Metric of the IPv4 routes.",
      type: "integer",
      default: "the kernel's",
      since: "1.6.0",
    },
    "provide": {
      text:
        "IPv4 options to send: `option`, and `value` or `fromArg`, the name of a value in CNI_ARGS. At most 255 bytes.",
      type: "list of objects",
      since: "1.1.0",
    },
    "provide[].option": {
      text: "Option to send, by number or name.",
    },
    "provide[].value": {
      text: "The option's value.",
    },
    "provide[].fromArg": {
      text: "Name of the value in CNI_ARGS.",
    },
    "request": {
      text:
        "IPv4 options to request in addition to the default. With `skipDefault` in one of them, the default options are not requested.",
      type: "list of objects",
      default: "`routers` and `subnet-mask`",
      since: "1.1.0",
    },
    "request[].option": {
      text: "Option to request, by number or name.",
    },
    "request[].skipDefault": {
      text: "Whether to omit the default options.",
    },
  },
};
