/**
 * Keys that mean the same to several plugins.
 *
 * @module
 */

import type { KeyFacts } from "./plugin_keys.ts";

/** By the end of a key's path; the longest one counts. */
export const COMMON_KEYS: Readonly<Record<string, KeyFacts>> = {
  "type": {
    text: "The plugin's type, which is its executable's name in CNI_PATH.",
  },
  "name": {
    text: "The network's name; in a list, the list's name counts.",
  },
  "cniVersion": {
    text:
      "Version of the CNI specification; in a list, the list's version counts.",
  },
  "capabilities": {
    text: "Arguments that the plugin wants from the runtime, in runtimeConfig.",
  },
  "capabilities.ipRanges": {
    text: "Whether the runtime passes ranges.",
  },
  "args": {
    text: "Arguments that a runtime or orchestrator adds.",
  },
  "args.cni": {
    text: "Arguments with a meaning that the CNI conventions define.",
  },
  "args.cni.mac": {
    text: "MAC of the container's interface.",
  },
  "runtimeConfig": {
    text: "Arguments that the runtime passes, by capability.",
  },
  "runtimeConfig.mac": {
    text: "MAC of the container's interface.",
  },
  "runtimeConfig.bandwidth": {
    text: "Limits of the container's traffic.",
  },
  "runtimeConfig.deviceID": {
    text: "Device of a device plugin.",
  },
  "runtimeConfig.portMappings": {
    text: "Ports of the host that lead to the container.",
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
    text: "Port of the host.",
  },
  "portMappings[].containerPort": {
    text: "Port of the container.",
  },
  "portMappings[].protocol": {
    text: "tcp, udp or sctp.",
  },
  "portMappings[].hostIP": {
    text: "Address of the host; all addresses if absent.",
  },
  "ingressRate": {
    text: "Rate at which the container may receive, in bits per second.",
  },
  "ingressBurst": {
    text: "How much the container may receive at once, in bits.",
  },
  "egressRate": {
    text: "Rate at which the container may send, in bits per second.",
  },
  "egressBurst": {
    text: "How much the container may send at once, in bits.",
  },
  "ipam": {
    text: "The IPAM plugin, and its configuration.",
  },
  "ipam.type": {
    text: "Type of the IPAM plugin, such as host-local.",
  },
  "prevResult": {
    text: "Result of the previous plugin, which the runtime sets.",
  },
  "allowPersistentIPs": {
    text: "Whether pods may name IPAMClaims, whose addresses outlive them.",
    default: "`false`",
  },
  "daemonSocket": {
    text: "Socket of the node daemon that runs the plugin's calls.",
    names: "socket",
    usual: [
      "/run/cni/daemon.sock",
      "/run/multus/daemon.sock",
      "/var/run/multus/daemon.sock",
    ],
  },
  "dns": {
    text: "Name servers of the container. Overrides the IPAM plugin's.",
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
    text: "Gateway; the address's gateway if absent.",
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
      "Where the rules of ipMasq are kept: nftables or iptables. The host decides if absent.",
  },
};
