/**
 * Keys of plugins, for code that does not load the plugins' metadata.
 * `deno task schemas` writes it from the metadata of all plugins.
 *
 * @module
 */

// deno-fmt-ignore-file
import type { Named } from "../../metadata/plugin_keys.ts";

/**
 * A key that names something of the node, what it names, and the usual values.
 * Sorted by key.
 */
export const PLUGIN_NODE_KEYS: readonly (readonly [
  key: string,
  names: Named,
  ...usual: string[],
])[] = [
  ["CNIDeviceInfoFile","path"],
  ["addHooks","program"],
  ["basePath","request"],
  ["binDir","directory"],
  ["bridge","interface"],
  ["checkHooks","program"],
  ["clusterNetwork","network"],
  ["cniConf","directory"],
  ["cniDir","directory"],
  ["cniOutput","path"],
  ["conditionsV4","program"],
  ["conditionsV6","program"],
  ["confDir","directory"],
  ["configuration_path","path","/etc/cni/net.d/whereabouts.d/whereabouts.conf","/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf"],
  ["daemonSocket","socket","/run/cni/daemon.sock","/run/multus/daemon.sock","/var/run/multus/daemon.sock"],
  ["daemonSocketDir","directory","/run/cni","/run/multus","/var/run/multus"],
  ["daemonSocketPath","socket","/run/cni/dhcp.sock","/var/run/cni/dhcp.sock"],
  ["dataDir","directory","/run/cni/host-device","/run/cni/tuning","/var/lib/cni/flannel","/var/lib/cni/networks","/var/lib/cni/whereabouts"],
  ["defaultNetworks","network"],
  ["delHooks","program"],
  ["device","interface"],
  ["deviceID","interface"],
  ["envAll","request"],
  ["etcd_ca_cert_file","path"],
  ["etcd_cert_file","path"],
  ["etcd_host","request"],
  ["etcd_key_file","path"],
  ["externalSetMarkChain","firewall","KUBE-MARK-MASQ"],
  ["firewalldZone","firewall","trusted"],
  ["headers","request"],
  ["hostAddresses","address"],
  ["hwaddr","interface"],
  ["iptablesAdminChainName","firewall","CNI-ADMIN"],
  ["k8s_api_root","request"],
  ["kernelpath","interface"],
  ["kubeconfig","path","/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig","/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.kubeconfig"],
  ["logFile","path"],
  ["log_file","path","/tmp/*","/var/log/whereabouts*"],
  ["markMasqBit","firewall","13"],
  ["master","interface"],
  ["pciBusID","interface"],
  ["readinessindicatorfile","path"],
  ["resolvConf","path","/etc/resolv.conf","/run/systemd/resolve/resolv.conf"],
  ["socket","socket"],
  ["subnetFile","path","/run/flannel/subnet.env"],
];

/** The keys that are secret. Sorted. */
export const SECRET_KEYS: readonly string[] = ["etcd_password"];
