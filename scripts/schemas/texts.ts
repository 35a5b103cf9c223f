/**
 * Texts for keys that mean the same to several plugins, or have no row of their
 * own in a page.
 *
 * @module
 */

/** Texts by the end of a key's path; the longest one counts. */
export const COMMON_TEXTS: Readonly<Record<string, string>> = {
  "type": "The plugin's type, which is its executable's name in CNI_PATH.",
  "name": "The network's name; in a list, the list's name counts.",
  "cniVersion":
    "Version of the CNI specification; in a list, the list's version counts.",
  "capabilities":
    "Arguments that the plugin wants from the runtime, in runtimeConfig.",
  "capabilities.ipRanges": "Whether the runtime passes ranges.",
  "args": "Arguments that a runtime or orchestrator adds.",
  "args.cni": "Arguments with a meaning that the CNI conventions define.",
  "args.cni.ips": "Addresses to request.",
  "args.cni.mac": "MAC of the container's interface.",
  "args.cni.sysctl": "Kernel parameters of the container, by name.",
  "args.cni.promisc": "Whether the interface accepts all frames.",
  "args.cni.mtu": "MTU of the interface in bytes.",
  "args.cni.allmulti": "Whether the interface accepts all multicast frames.",
  "args.cni.txQLen": "Length of the interface's transmit queue in packets.",
  "runtimeConfig": "Arguments that the runtime passes, by capability.",
  "runtimeConfig.mac": "MAC of the container's interface.",
  "runtimeConfig.ips": "Addresses to request.",
  "runtimeConfig.ipRanges": "Range sets, in the form of ranges.",
  "runtimeConfig.bandwidth": "Limits of the container's traffic.",
  "runtimeConfig.deviceID": "Device of a device plugin.",
  "runtimeConfig.infinibandGUID": "GUID of the InfiniBand interface.",
  "runtimeConfig.CNIDeviceInfoFile": "Path of the device information file.",
  "runtimeConfig.portMappings": "Ports of the host that lead to the container.",
  "ipRanges[][].subnet": "Network without host bits.",
  "ipRanges[][].rangeStart": "First address to allocate.",
  "ipRanges[][].rangeEnd": "Last address to allocate.",
  "ipRanges[][].gateway": "Gateway of the addresses.",
  "ipRanges[][].exclude": "Addresses and networks that are never allocated.",
  "portMappings[].hostPort": "Port of the host.",
  "portMappings[].containerPort": "Port of the container.",
  "portMappings[].protocol": "tcp, udp or sctp.",
  "portMappings[].hostIP": "Address of the host; all addresses if absent.",
  "ingressRate": "Rate at which the container may receive, in bits per second.",
  "ingressBurst": "How much the container may receive at once, in bits.",
  "egressRate": "Rate at which the container may send, in bits per second.",
  "egressBurst": "How much the container may send at once, in bits.",
  "shapedSubnets": "Limits only traffic with these subnets.",
  "unshapedSubnets": "Limits all traffic except with these subnets.",
  "ipam": "The IPAM plugin, and its configuration.",
  "ipam.type": "Type of the IPAM plugin, such as host-local.",
  "prevResult": "Result of the previous plugin, which the runtime sets.",
  "daemonSocket": "Socket of the node daemon that runs the plugin's calls.",
  "dns": "Name servers of the container. Overrides the IPAM plugin's.",
  "dns.nameservers": "Addresses of name servers.",
  "dns.domain": "Local domain.",
  "dns.search": "Domains to search for short names.",
  "dns.options": "Options of resolv.conf.",
  "routes": "Routes of the container.",
  "routes[].dst": "Destination as a CIDR; 0.0.0.0/0 is the default route.",
  "routes[].gw": "Gateway; the address's gateway if absent.",
  "routes[].mtu": "MTU of the route in bytes.",
  "routes[].advmss": "Maximum segment size to advertise, in bytes.",
  "routes[].priority": "Metric; the lowest one is preferred.",
  "routes[].table": "Routing table.",
  "routes[].scope": "Scope: 0 universe, 253 link, 254 host.",
  "addresses[].address": "Address with its prefix length.",
  "addresses[].gateway": "Gateway of the address's subnet.",
  "vlanTrunk[].id": "A VLAN.",
  "vlanTrunk[].minID": "First VLAN of a range.",
  "vlanTrunk[].maxID": "Last VLAN of a range.",
  "provide[].option": "Option to send, by number or name.",
  "provide[].value": "The option's value.",
  "provide[].fromArg": "Name of the value in CNI_ARGS.",
  "request[].option": "Option to ask for, by number or name.",
  "request[].skipDefault": "Whether not to ask for the default options.",
  "logOptions.maxAge": "Age in days at which a rotated file is removed.",
  "logOptions.maxSize": "Size in MiB at which the file is rotated.",
  "logOptions.maxBackups": "Number of rotated files to keep.",
  "logOptions.compress": "Whether to compress rotated files.",
  "cniConf": "Older name of confDir.",
  "ipam.kubernetes": "How to reach the API server.",
  "kubernetes.kubeconfig":
    "Path of the kubeconfig. Its context's namespace has the objects.",
  "kubernetes.k8s_api_root":
    "Address of the API server; the kubeconfig counts.",
  "leader_lease_duration": "A key of the reference; no effect here.",
  "leader_renew_deadline": "A key of the reference; no effect here.",
  "leader_retry_period": "A key of the reference; no effect here.",
  "log_file": "A key of the reference; no effect here.",
  "log_level": "A key of the reference; no effect here.",
  "sleep_for_race": "A key of the reference; no effect here.",
  "reconciler_cron_expression": "A key of the reference; no effect here.",
  "datastore": "A key of the reference; no effect here.",
  "etcd_host": "A key of the reference; no effect here.",
  "etcd_username": "A key of the reference; no effect here.",
  "etcd_password": "A key of the reference; no effect here.",
  "etcd_key_file": "A key of the reference; no effect here.",
  "etcd_cert_file": "A key of the reference; no effect here.",
  "etcd_ca_cert_file": "A key of the reference; no effect here.",
  "ipMasq": "Whether to masquerade traffic that leaves the network.",
  "ipMasqBackend":
    "Where the rules of ipMasq are kept: nftables or iptables. The host decides if absent.",
};

/** Keys that a plugin cannot do without. */
export const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  "dummy": ["ipam"],
  "ptp": ["ipam"],
  "vlan": ["ipam", "master"],
  "vrf": ["vrfname"],
};

/** Texts for the keys of a list. Source: CNI specification 1.1.0, section 1. */
export const LIST_TEXTS: Readonly<Record<string, string>> = {
  "$schema": "The schema of this file, for editors.",
  "cniVersion": "Version of the CNI specification.",
  "cniVersions": "Versions that the configuration supports; the newest counts.",
  "name":
    "Name of the network: letters, digits, underscores, dots and dashes. Unique on the node.",
  "disableCheck": "Whether runtimes do not run CHECK.",
  "disableGC": "Whether runtimes do not run GC.",
  "loadOnlyInlinedPlugins":
    "Whether plugins in the folder of the network's name are ignored.",
  "plugins": "The plugins, in the order in which ADD runs them.",
  "args": "Kept for other programs.",
};
