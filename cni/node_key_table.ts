/**
 * The keys of plugins that name something of the node. `deno task schemas`
 * writes it from `keys.ts` of all plugins.
 *
 * @module
 */

// deno-fmt-ignore-file
import type { NodeKey } from "./node_key.ts";

/** Sorted by key. */
export const PLUGIN_NODE_KEYS: readonly NodeKey[] = [
  {"key":"CNIDeviceInfoFile","names":"path"},
  {"key":"addHooks","names":"program"},
  {"key":"basePath","names":"request"},
  {"key":"binDir","names":"directory"},
  {"key":"bridge","names":"interface"},
  {"key":"checkHooks","names":"program"},
  {"key":"clusterNetwork","names":"network"},
  {"key":"cniConf","names":"directory"},
  {"key":"cniDir","names":"directory"},
  {"key":"cniOutput","names":"path"},
  {"key":"conditionsV4","names":"program"},
  {"key":"conditionsV6","names":"program"},
  {"key":"confDir","names":"directory"},
  {"key":"configuration_path","names":"path","usual":["/etc/cni/net.d/whereabouts.d/whereabouts.conf","/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf"]},
  {"key":"daemonSocket","names":"socket","usual":["/run/cni/daemon.sock","/run/multus/daemon.sock","/var/run/multus/daemon.sock"]},
  {"key":"daemonSocketDir","names":"directory","usual":["/run/cni","/run/multus","/var/run/multus"]},
  {"key":"daemonSocketPath","names":"socket","usual":["/run/cni/dhcp.sock","/var/run/cni/dhcp.sock"]},
  {"key":"dataDir","names":"directory","usual":["/run/cni/tuning","/var/lib/cni/flannel","/var/lib/cni/networks","/var/lib/cni/whereabouts"]},
  {"key":"defaultNetworks","names":"network"},
  {"key":"delHooks","names":"program"},
  {"key":"device","names":"interface"},
  {"key":"deviceID","names":"interface"},
  {"key":"envAll","names":"request"},
  {"key":"etcd_ca_cert_file","names":"path"},
  {"key":"etcd_cert_file","names":"path"},
  {"key":"etcd_host","names":"request"},
  {"key":"etcd_key_file","names":"path"},
  {"key":"headers","names":"request"},
  {"key":"hwaddr","names":"interface"},
  {"key":"k8s_api_root","names":"request"},
  {"key":"kernelpath","names":"interface"},
  {"key":"kubeconfig","names":"path","usual":["/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig","/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.kubeconfig"]},
  {"key":"logFile","names":"path"},
  {"key":"log_file","names":"path","usual":["/tmp/*","/var/log/whereabouts*"]},
  {"key":"master","names":"interface"},
  {"key":"pciBusID","names":"interface"},
  {"key":"readinessindicatorfile","names":"path"},
  {"key":"resolvConf","names":"path","usual":["/etc/resolv.conf","/run/systemd/resolve/resolv.conf"]},
  {"key":"socket","names":"socket"},
  {"key":"subnetFile","names":"path","usual":["/run/flannel/subnet.env"]},
];
