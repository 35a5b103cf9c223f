/**
 * The keys of multus' configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "attaches a pod to several networks, chosen by its annotations",
  goPeer: "k8snetworkplumbingwg/multus-cni cmd/multus",
  text:
    "Attaches a pod to several networks. The runtime calls multus like any other plugin. multus runs the plugins of the cluster's primary network, the _master_, and then the plugins of each network that the pod's annotation names:",
  example,
  keys: {
    "delegates": {
      text: "Networks of every pod: plugins or lists. The first is the master.",
    },
    "clusterNetwork": {
      text:
        "The master, in one of [four forms](multus-networks.md#networks). Overrides `delegates`. One of the two is required.",
      names: "network",
    },
    "defaultNetworks": {
      text:
        "Additional networks of every pod, in the same forms. Only with `clusterNetwork`.",
      default: "`[]`",
      names: "network",
    },
    "defaultNetworksAreOptional": {
      text:
        "A pod with the annotation `cni.dev/default-networks: none` is attached only to the master network, not to the other default networks.",
      default: "`false`",
    },
    "requireDevices": {
      text:
        "Refuses a network if no device of its [resource](multus-networks.md#devices) is left for the pod, instead of attaching it without a device.",
      default: "`false`",
    },
    "systemNamespaces": {
      text: "Namespaces whose pods do not get `defaultNetworks`.",
      default: '`["kube-system"]`',
    },
    "multusNamespace": {
      text:
        "Namespace of the definitions named by `clusterNetwork`, `defaultNetworks` and the annotation `default-network`.",
      default: "`kube-system`",
    },
    "kubeconfig": {
      text:
        "How to reach the API server. Without it, multus uses the service account if it runs in a pod. Otherwise it uses no API server and attaches only the configuration's networks.",
      names: "path",
      usual: [
        "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig",
        "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.kubeconfig",
      ],
    },
    "apiTimeoutSeconds": {
      text:
        "How long each request of ADD waits for the API server, in seconds: more than 0, at most 219. See [API requests](multus-operation.md#api-requests).",
      default: "`60`",
    },
    "namespaceIsolation": {
      text:
        "Pods may only use networks of their own namespace and of `globalNamespaces`. Otherwise the error is `namespace isolation enabled, annotation violates permission, …`.",
      default: "`false`",
    },
    "globalNamespaces": {
      text:
        "Namespaces whose networks all pods may use, separated by commas. Replaces the default.",
      default: "`default`",
    },
    "definitionTypes": {
      text:
        "Types of plugins that [definitions may run](multus-networks.md#what-a-definition-may-do). `*` stands for all except `chain`, `debug`, `remote` and `contivk8s`.",
      default: '`["*"]`',
    },
    "definitionKeys": {
      text:
        "Keys that definitions may set although they name a file, a program or a socket on the node, such as `host-local.dataDir`.",
      default: "`[]`",
    },
    "trustedNamespaces": {
      text:
        "Namespaces whose definitions may contain everything that a file on the node may contain.",
      default: "`[]`",
    },
    "podRequests": {
      text:
        "What pods [may request](multus-networks.md#what-a-pod-may-request) in their annotations: `offered` (what the network's definition offers and no other container has) or `any`.",
      default: "`offered`",
    },
    "podArgs": {
      text: "Additional keys of `cni-args` that pods may set, such as `mtu`.",
      default: "`[]`",
    },
    "podRoutes": {
      text:
        "Destinations that pods may [route over their networks](multus-networks.md#routes), such as `10.50.0.0/16`.",
      default: "`[]`",
    },
    "readinessindicatorfile": {
      text:
        "A file that the master network creates when it is ready. ADD and GC wait for it for up to 45 s, then return code 11. STATUS does not wait and returns 50.",
      names: "path",
    },
    "confDir": {
      text:
        "Directory of networks that are named but have no configuration of their own. `cniConf`, which the Go installer writes, also works.",
      default: "`/etc/cni/multus/net.d`",
      names: "directory",
    },
    "cniConf": {
      text: "Older name of confDir.",
      names: "directory",
    },
    "cniDir": {
      text:
        "Directory of [the records](multus-operation.md#files) that are kept from ADD to DEL.",
      default: "`/var/lib/cni/multus`",
      names: "directory",
    },
    "binDir": {
      text:
        "Directory that is searched for plugins before the runtime's CNI_PATH.",
      default: "`/opt/cni/bin`",
      names: "directory",
    },
    "logFile": {
      text:
        "[Log file](multus-operation.md#the-log-of-multus), in addition to stderr.",
      names: "path",
    },
    "logLevel": {
      text: "`panic` (nothing), `error`, `verbose`, `debug`.",
      default: "`error`",
    },
    "logToStderr": {
      text: "Whether to log to stderr.",
      default: "`true`",
    },
    "logOptions": {
      text:
        "`maxAge` in days, `maxSize` in megabytes, `maxBackups`, `compress`.",
      default: "`{5, 100, 5, true}`",
    },
    "logOptions.maxAge": {
      text: "Age in days at which a rotated file is removed.",
    },
    "logOptions.maxSize": {
      text: "Size in MiB at which the file is rotated.",
    },
    "logOptions.maxBackups": {
      text: "Number of rotated files to keep.",
    },
    "logOptions.compress": {
      text: "Whether to compress rotated files.",
    },
    "capabilities": {
      text: "Capabilities to request from the runtime.",
    },
    "runtimeConfig": {
      text:
        "Set by the runtime. `portMappings`, `bandwidth`, `ips`, `mac`, `infinibandGUID`, `deviceID` and `CNIDeviceInfoFile` are offered to every network; other keys only to the master.",
    },
    "runtimeConfig.ips": {
      text: "Addresses to request.",
    },
    "runtimeConfig.infinibandGUID": {
      text: "GUID of the InfiniBand interface.",
    },
    "runtimeConfig.CNIDeviceInfoFile": {
      text: "Path of the device information file.",
      names: "path",
    },
    "auxiliaryCNIChainName": {
      text:
        "Name of a network that every pod is attached to last: [`passthru`](multus-networks.md#passthru), then each plugin from a file `*.conf` in the directory of this name next to `clusterNetwork`, which must be a path. If a file is malformed, multus skips the network and logs that.",
    },
    "retryDeleteOnError": {
      text: "No effect: a failed DEL always keeps what the next DEL needs.",
      default: "`false`",
    },
    "daemonSocketDir": {
      text:
        "Directory of the sockets of the [daemon](daemon.md) that runs calls.",
      names: "directory",
      usual: [
        "/run/cni",
        "/run/multus",
        "/var/run/multus",
      ],
    },
  },
};
