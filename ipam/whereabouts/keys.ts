/**
 * The keys of whereabouts's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../cni/tools/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "allocates addresses for the whole cluster, kept in Kubernetes",
  goPeer: "k8snetworkplumbingwg/whereabouts cmd",
  text:
    "Allocates addresses that are unique in the cluster. The allocations are custom resources of Kubernetes, so the ranges need not be divided among the nodes. It is the IPAM plugin for secondary networks of pods, usually with [multus](multus.md).",
  example,
  keys: {
    "range": {
      text:
        "Network, `192.168.2.0/24`, or first and last address, `192.168.2.5-192.168.2.9/24`",
      default: "none",
    },
    "range_start": {
      text: "First and last address. Ignored if outside the network",
      default: "the network's second and last but one",
    },
    "range_end": {
      text: "First and last address. Ignored if outside the network",
      default: "the network's second and last but one",
    },
    "exclude": {
      text: "List of networks and addresses that are never allocated",
      default: "none",
    },
    "ipRanges": {
      text:
        "List of further ranges, each with these four keys. An attachment gets one address from each",
      default: "none",
    },
    "ipRanges[].range": {
      text:
        "Network, `192.168.2.0/24`, or first and last address, `192.168.2.5-192.168.2.9/24`",
      default: "none",
    },
    "ipRanges[].range_start": {
      text: "First and last address. Ignored if outside the network",
      default: "the network's second and last but one",
    },
    "ipRanges[].range_end": {
      text: "First and last address. Ignored if outside the network",
      default: "the network's second and last but one",
    },
    "ipRanges[].exclude": {
      text: "List of networks and addresses that are never allocated",
      default: "none",
    },
    "gateway": {
      text:
        "Gateway in the result, for addresses of its family. It is not excluded from the range",
      default: "none",
    },
    "exclude_gateway": {
      text: "Never allocates the gateway. Only this implementation knows it",
      default: "`false`",
    },
    "addresses": {
      text: "List of `address` and `gateway`: fixed addresses in addition",
      default: "none",
    },
    "routes": {
      text: "Copied into the result",
      default: "none",
    },
    "dns": {
      text: "Copied into the result",
      default: "none",
    },
    "network_name": {
      text: "Separate address space: lower-case letters, digits, `-` and `.`",
      default: "none",
    },
    "enable_overlapping_ranges": {
      text: "Keeps an address unique in all ranges of the same `network_name`",
      default: "`true`",
    },
    "node_slice_size": {
      text:
        "Allocates from the node's slice of the range, [see below](#node-slices)",
      default: "none",
    },
    "apiTimeoutSeconds": {
      text:
        "How long ADD, DEL and GC wait for the API server in all, in seconds: more than 0, at most 219. Only this implementation knows it",
      default: "`60`",
    },
    "stay": {
      text:
        "Pods whose addresses [stay](addresses-that-stay.md) without an IPAMClaim of their own: `statefulset`, or `name` for all. Only this implementation knows it",
      default: "none",
    },
    "stayTime": {
      text:
        "With `stay: name`, how long an address stays that no pod uses, such as `10m`. Required then",
      default: "none",
    },
    "stayWhenScaled": {
      text:
        "With `stay: statefulset`, whether to `keep` or `delete` the addresses of pods that the set is scaled down by",
      default: "`keep`",
    },
    "kubernetes": {
      text: "How to reach the API server.",
    },
    "kubernetes.kubeconfig": {
      text:
        "Path of the kubeconfig. Its context's namespace, or `kube-system`, has the objects.",
      default: "required",
      names: "path",
      usual: [
        "/etc/cni/net.d/whereabouts.d/whereabouts.kubeconfig",
        "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.kubeconfig",
      ],
    },
    "kubernetes.k8s_api_root": {
      text: "Address of the API server; the kubeconfig counts.",
      names: "request",
    },
    "configuration_path": {
      text: "Path of the flat file",
      default: "see below",
      names: "path",
      usual: [
        "/etc/cni/net.d/whereabouts.d/whereabouts.conf",
        "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
      ],
    },
    "dataDir": {
      text: "Directory of the receipts. Only this implementation knows it",
      default: "`/var/lib/cni/whereabouts`",
      names: "directory",
      usual: [
        "/var/lib/cni/whereabouts",
      ],
    },
    "leader_lease_duration": {
      text: "A key of the reference; no effect here.",
    },
    "leader_renew_deadline": {
      text: "A key of the reference; no effect here.",
    },
    "leader_retry_period": {
      text: "A key of the reference; no effect here.",
    },
    "log_file": {
      text: "A key of the reference; no effect here.",
      names: "path",
      usual: [
        "/tmp/*",
        "/var/log/whereabouts*",
      ],
    },
    "log_level": {
      text: "A key of the reference; no effect here.",
    },
    "sleep_for_race": {
      text: "A key of the reference; no effect here.",
    },
    "reconciler_cron_expression": {
      text: "A key of the reference; no effect here.",
    },
    "datastore": {
      text: "A key of the reference; no effect here.",
    },
    "etcd_host": {
      text: "A key of the reference; no effect here.",
      names: "request",
    },
    "etcd_username": {
      text: "A key of the reference; no effect here.",
    },
    "etcd_password": {
      text: "A key of the reference; no effect here.",
      isSecret: true,
    },
    "etcd_key_file": {
      text: "A key of the reference; no effect here.",
      names: "path",
    },
    "etcd_cert_file": {
      text: "A key of the reference; no effect here.",
      names: "path",
    },
    "etcd_ca_cert_file": {
      text: "A key of the reference; no effect here.",
      names: "path",
    },
  },
};
