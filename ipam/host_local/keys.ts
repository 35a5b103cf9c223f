/**
 * The keys of host-local's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "allocates addresses from ranges, with leases in files",
  goPeer: "containernetworking/plugins plugins/ipam/host-local",
  text:
    "Allocates addresses from ranges in the configuration and stores the leases as files on this host. It creates no interfaces and needs no daemon. It does not coordinate with other hosts, so give each host its own ranges.",
  example,
  keys: {
    "rangeStart": {
      text: "An additional range, as a set before the sets of `ranges`.",
    },
    "rangeEnd": {
      text: "An additional range, as a set before the sets of `ranges`.",
    },
    "gateway": {
      text: "An additional range, as a set before the sets of `ranges`.",
    },
    "exclude": {
      text: "An additional range, as a set before the sets of `ranges`.",
    },
    "subnet": {
      text: "An additional range, as a set before the sets of `ranges`.",
    },
    "ranges": {
      text: "List of range sets, each a list of ranges of one family.",
    },
    "ranges[][].rangeStart": {
      text: "First address to allocate, within the subnet.",
      default: "the subnet's second address",
    },
    "ranges[][].rangeEnd": {
      text: "Last address to allocate, within the subnet.",
      default: "the last but one; in IPv6 the last",
    },
    "ranges[][].gateway": {
      text:
        "Copied into the result and never allocated from this range; may be outside it.",
      default: "the subnet's second address",
    },
    "ranges[][].exclude": {
      text:
        "List of addresses and networks within the subnet that are never allocated.",
      default: "none",
    },
    "ranges[][].subnet": {
      text: "Network without host bits. Required.",
    },
    "routes": {
      text:
        "Copied into the result: `dst`, `gw`, `mtu`, `advmss`, `priority`, `table`, `scope`.",
      default: "none",
    },
    "dataDir": {
      text:
        "Directory of the leases. On a tmpfs, they disappear at reboot, as the containers do.",
      default: "`/var/lib/cni/networks`",
      names: "directory",
      usual: [
        "/var/lib/cni/networks",
      ],
    },
    "resolvConf": {
      text: "A resolv.conf(5) to fill the result's `dns` from.",
      default: "none",
      names: "path",
      usual: [
        "/etc/resolv.conf",
        "/run/systemd/resolve/resolv.conf",
      ],
    },
    "stay": {
      text:
        "`name`: a pod of the same name gets the same addresses again ([persistent addresses](host-local.md#persistent-addresses)). The Go plugin does not have this key.",
      default: "none",
    },
    "stayTime": {
      text:
        "With `stay`, how long an unused address is kept for its pod, such as `10m`; at most ten years. Required with `stay`.",
      default: "none",
    },
  },
};
