/**
 * Keys that mean the same to several plugins.
 *
 * @module
 */

import type { KeyDescription } from "./plugin_keys.ts";

/** Descriptions by the end of a key's path. The longest match counts. */
export const COMMON_KEYS: Readonly<Record<string, KeyDescription>> = {
  "type": {
    text: "The plugin's type, which is its executable's name in CNI_PATH.",
  },
  "name": {
    text: "The network's name. In a network list, only the list has one.",
  },
  "cniVersion": {
    text:
      "Version of the CNI specification. In a network list, only the list has one.",
  },
  "capabilities": {
    text:
      "Values that the plugin requests from the runtime, which passes them in runtimeConfig.",
  },
  "capabilities.ipRanges": {
    text: "Whether the runtime passes ranges.",
  },
  "args": {
    text: "Values that a runtime or an orchestrator adds.",
  },
  "args.cni": {
    text: "Values that the CNI conventions define.",
  },
  "args.cni.mac": {
    text: "MAC of the container's interface.",
  },
  "runtimeConfig": {
    text: "Values that the runtime passes, by capability.",
  },
  "runtimeConfig.mac": {
    text: "MAC of the container's interface.",
  },
  "runtimeConfig.bandwidth": {
    text: "Rate limits of the container's traffic.",
  },
  "runtimeConfig.deviceID": {
    text: "Device that a device plugin allocated.",
  },
  "runtimeConfig.portMappings": {
    text: "Host ports that are forwarded to the container.",
  },
  "ipRanges[][].subnet": {
    text: "Network without host bits.",
  },
  "ipRanges[][].rangeStart": {
    text: "First address to allocate.",
  },
  "ipRanges[][].rangeEnd": {
    text: "Last address to allocate.",
  },
  "ipRanges[][].gateway": {
    text: "Gateway of the addresses.",
  },
  "ipRanges[][].exclude": {
    text: "Addresses and networks that are never allocated.",
  },
  "portMappings[].hostPort": {
    text: "The host port.",
    type: "integer, 1–65535",
  },
  "portMappings[].containerPort": {
    text: "The container's port.",
    type: "integer, 1–65535",
  },
  "portMappings[].protocol": {
    text: "`tcp`, `udp` or `sctp`, in any case.",
    type: "string",
    default: "`tcp`",
  },
  "portMappings[].hostIP": {
    text:
      "An address of the host. `0.0.0.0` means all IPv4 addresses, `::` all IPv6 addresses.",
    type: "string",
    default: "all addresses",
  },
  "ingressRate": {
    text: "Rate at which the container may receive, in bits per second.",
  },
  "ingressBurst": {
    text: "How much the container may receive in a burst, in bits.",
  },
  "egressRate": {
    text: "Rate at which the container may send, in bits per second.",
  },
  "egressBurst": {
    text: "How much the container may send in a burst, in bits.",
  },
  "ipam": {
    text: "The IPAM plugin, and its configuration.",
  },
  "ipam.type": {
    text: "Type of the IPAM plugin, such as host-local.",
  },
  "prevResult": {
    text: "Result of the previous plugin; the runtime sets it.",
  },
  "allowPersistentIPs": {
    text: "Whether pods can name IPAMClaims, which keep their addresses.",
    default: "`false`",
  },
  "daemonSocket": {
    text:
      "Socket of the [node daemon](daemon.md) that runs the plugin's calls.",
    names: "socket",
    usual: [
      "/run/cni/daemon.sock",
      "/run/multus/daemon.sock",
      "/var/run/multus/daemon.sock",
    ],
  },
  "dns": {
    text:
      "Name servers of the container. Overrides the IPAM plugin's settings.",
  },
  "dns.nameservers": {
    text: "Addresses of name servers.",
  },
  "dns.domain": {
    text: "Local domain.",
  },
  "dns.search": {
    text: "Domains to search for short names.",
  },
  "dns.options": {
    text: "Options of resolv.conf.",
  },
  "routes[].dst": {
    text: "Destination as a CIDR; 0.0.0.0/0 is the default route.",
  },
  "routes[].gw": {
    text: "Gateway; the default is the gateway of the address.",
  },
  "routes[].mtu": {
    text: "MTU of the route in bytes.",
  },
  "routes[].advmss": {
    text: "Maximum segment size to advertise, in bytes.",
  },
  "routes[].priority": {
    text: "Metric; the lowest one is preferred.",
  },
  "routes[].table": {
    text: "Routing table.",
  },
  "routes[].scope": {
    text: "Scope: 0 universe, 253 link, 254 host.",
  },
  "addresses[].address": {
    text: "Address with its prefix length.",
  },
  "addresses[].gateway": {
    text: "Gateway of the address's subnet.",
  },
  "ipMasqBackend": {
    text:
      "Backend of the rules of ipMasq: nftables or iptables. By default, the host decides.",
  },
};
