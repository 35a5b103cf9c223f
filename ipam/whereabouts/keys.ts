/**
 * The keys of whereabouts's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "allocates addresses for the whole cluster, stored in Kubernetes",
  goPeer: "k8snetworkplumbingwg/whereabouts cmd",
  text:
    "Allocates addresses that are unique in the cluster. The allocations are Kubernetes custom resources, so you need not divide the ranges among the nodes. It is the IPAM plugin for secondary networks of pods, usually with [multus](multus.md).",
  example,
  keys: {
    "range": {
      text:
        "Network, `192.168.2.0/24`, or first and last address, `192.168.2.5-192.168.2.9/24`.",
      default: "none",
    },
    "range_start": {
      text: "First and last address. Ignored if outside the network.",
      default: "the network's second and last but one",
    },
    "range_end": {
      text: "First and last address. Ignored if outside the network.",
      default: "the network's second and last but one",
    },
    "exclude": {
      text: "List of networks and addresses that are never allocated.",
      default: "none",
    },
    "ipRanges": {
      text:
        "List of further ranges, each with the keys `range`, `range_start`, `range_end` and `exclude`. An attachment gets one address from each range.",
      default: "none",
    },
    "ipRanges[].range": {
      text:
        "Network, `192.168.2.0/24`, or first and last address, `192.168.2.5-192.168.2.9/24`.",
      default: "none",
    },
    "ipRanges[].range_start": {
      text: "First and last address. Ignored if outside the network.",
      default: "the network's second and last but one",
    },
    "ipRanges[].range_end": {
      text: "First and last address. Ignored if outside the network.",
      default: "the network's second and last but one",
    },
    "ipRanges[].exclude": {
      text: "List of networks and addresses that are never allocated.",
      default: "none",
    },
    "gateway": {
      text:
        "Gateway in the result, for addresses of its family. The range can still allocate it.",
      default: "none",
    },
    "exclude_gateway": {
      text:
        "Never allocates the gateway. Upstream whereabouts does not have this key.",
      default: "`false`",
    },
    "addresses": {
      text:
        "List of additional fixed addresses, each with `address` and `gateway`.",
      default: "none",
    },
    "routes": {
      text: "Copied into the result.",
      default: "none",
    },
    "dns": {
      text: "Copied into the result.",
      default: "none",
    },
    "network_name": {
      text:
        "Name of a separate address space, in lower-case letters, digits, `-` and `.`.",
      default: "none",
    },
    "enable_overlapping_ranges": {
      text: "Keeps an address unique in all ranges of the same `network_name`.",
      default: "`true`",
    },
    "node_slice_size": {
      text:
        "Allocates from the node's slice of the range, [see below](#node-slices).",
      default: "none",
    },
    "apiTimeoutSeconds": {
      text:
        "How long ADD, DEL and GC wait for the API server in total, in seconds: more than 0, at most 219. Upstream whereabouts does not have this key.",
      default: "`60`",
    },
    "stay": {
      text:
        "Pods that keep their addresses [without a claim of their own](persistent-addresses.md#claims-for-statefulsets-and-pod-names): `statefulset`, or `name` for all. Upstream whereabouts does not have this key.",
      default: "none",
    },
    "stayTime": {
      text:
        "With `stay: name`, how long an unused address is kept for its pod, such as `10m`. Required with `name`.",
      default: "none",
    },
    "stayWhenScaled": {
      text:
        "With `stay: statefulset`, whether to `keep` or `delete` the addresses of pods that scaling down removes.",
      default: "`keep`",
    },
    "kubernetes": {
      text: "How to reach the API server.",
    },
    "kubernetes.kubeconfig": {
      text:
        "Path of the kubeconfig. Its context's namespace, or `kube-system`, contains the objects.",
      default: "required",
      names: "path",
      usual: [
        "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig",
        "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.kubeconfig",
      ],
    },
    "kubernetes.k8s_api_root": {
      text:
        "Address of the API server. Without effect: the kubeconfig's address is used.",
      names: "request",
    },
    "configuration_path": {
      text: "Path of the flat file.",
      default: "see below",
      names: "path",
      usual: [
        "/etc/cni/net.d/whereabouts.d/whereabouts.conf",
        "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
      ],
    },
    "dataDir": {
      text:
        "Directory of the allocation files. Upstream whereabouts does not have this key.",
      default: "`/var/lib/cni/whereabouts`",
      names: "directory",
      usual: [
        "/var/lib/cni/whereabouts",
      ],
    },
    "leader_lease_duration": {
      text: "An upstream key without effect.",
    },
    "leader_renew_deadline": {
      text: "An upstream key without effect.",
    },
    "leader_retry_period": {
      text: "An upstream key without effect.",
    },
    "log_file": {
      text: "An upstream key without effect.",
      names: "path",
      usual: [
        "/tmp/*",
        "/var/log/whereabouts*",
      ],
    },
    "log_level": {
      text: "An upstream key without effect.",
    },
    "sleep_for_race": {
      text: "An upstream key without effect.",
    },
    "reconciler_cron_expression": {
      text: "An upstream key without effect.",
    },
    "datastore": {
      text: "An upstream key without effect.",
    },
    "etcd_host": {
      text: "An upstream key without effect.",
      names: "request",
    },
    "etcd_username": {
      text: "An upstream key without effect.",
    },
    "etcd_password": {
      text: "An upstream key without effect.",
      isSecret: true,
    },
    "etcd_key_file": {
      text: "An upstream key without effect.",
      names: "path",
    },
    "etcd_cert_file": {
      text: "An upstream key without effect.",
      names: "path",
    },
    "etcd_ca_cert_file": {
      text: "An upstream key without effect.",
      names: "path",
    },
  },
};
