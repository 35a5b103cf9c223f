/**
 * The keys of configurations that name something of the node, for code that
 * must know them without the plugins' schemas.
 *
 * @module
 */

import { foldKey } from "./json.ts";

/** What the value of a key names. */
export type Named =
  /** A file. */
  | "path"
  | "directory"
  /** A network: a path if it has a slash. */
  | "network"
  | "socket"
  /** A program, or text that a program of the node interprets. */
  | "program"
  /** A part of what is sent to a daemon of the node. */
  | "request"
  /** An interface of the node. */
  | "interface";

/** A key that names something of the node. */
export interface NodeKey {
  /** As documented; plugins read keys in any case. */
  readonly key: string;
  /** Types of the plugins that read it; none for all. */
  readonly plugins: readonly string[];
  readonly names: Named;
  /**
   * Values that name what the plugin uses anyway, or what harms nobody. `*` at
   * the end stands for the rest of a file name.
   */
  readonly usual?: readonly string[];
}

/** Where a node daemon listens by default. */
const DAEMON_DIRS = ["/run/cni", "/run/multus", "/var/run/multus"];

const WHEREABOUTS = [
  "/etc/cni/net.d/whereabouts.d",
  "/etc/kubernetes/cni/net.d/whereabouts.d",
];

/**
 * The keys. Some are of other projects' plugins, which definitions in use name.
 *
 * `tests/node_keys_test.ts` compares them with the schemas of all plugins.
 */
export const NODE_KEYS: readonly NodeKey[] = [
  {
    key: "daemonSocket",
    plugins: [],
    names: "socket",
    usual: DAEMON_DIRS.map((folder) => `${folder}/daemon.sock`),
  },
  {
    key: "daemonSocketDir",
    plugins: ["chain", "multus", "multus-shim"],
    names: "directory",
    usual: DAEMON_DIRS,
  },
  {
    key: "daemonSocketPath",
    plugins: ["dhcp"],
    names: "socket",
    usual: ["/run/cni/dhcp.sock", "/var/run/cni/dhcp.sock"],
  },
  {
    key: "dataDir",
    plugins: ["flannel", "host-local", "tuning", "whereabouts"],
    names: "directory",
    usual: [
      "/run/cni/tuning",
      "/var/lib/cni/flannel",
      "/var/lib/cni/networks",
      "/var/lib/cni/whereabouts",
    ],
  },
  {
    key: "resolvConf",
    plugins: ["host-local"],
    names: "path",
    usual: ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"],
  },
  {
    key: "subnetFile",
    plugins: ["flannel"],
    names: "path",
    usual: ["/run/flannel/subnet.env"],
  },
  {
    key: "configuration_path",
    plugins: ["ovs", "whereabouts"],
    names: "path",
    usual: WHEREABOUTS.map((folder) => `${folder}/whereabouts.conf`),
  },
  {
    key: "kubeconfig",
    plugins: ["calico", "multus", "whereabouts"],
    names: "path",
    usual: WHEREABOUTS.map((folder) => `${folder}/whereabouts.kubeconfig`),
  },
  // Where the credentials of a kubeconfig would be sent.
  { key: "k8s_api_root", plugins: ["calico", "whereabouts"], names: "request" },
  { key: "etcd_host", plugins: ["whereabouts"], names: "request" },
  {
    key: "etcd_key_file",
    plugins: ["calico", "whereabouts"],
    names: "path",
  },
  {
    key: "etcd_cert_file",
    plugins: ["calico", "whereabouts"],
    names: "path",
  },
  {
    key: "etcd_ca_cert_file",
    plugins: ["calico", "whereabouts"],
    names: "path",
  },
  {
    key: "log_file",
    plugins: ["whereabouts"],
    names: "path",
    usual: ["/tmp/*", "/var/log/whereabouts*"],
  },
  { key: "log_file_path", plugins: ["calico"], names: "path" },
  { key: "logFile", plugins: ["multus", "sriov"], names: "path" },
  { key: "readinessindicatorfile", plugins: ["multus"], names: "path" },
  { key: "clusterNetwork", plugins: ["multus"], names: "network" },
  { key: "defaultNetworks", plugins: ["multus"], names: "network" },
  { key: "binDir", plugins: ["multus"], names: "directory" },
  { key: "cniConf", plugins: ["multus"], names: "directory" },
  { key: "cniDir", plugins: ["multus"], names: "directory" },
  { key: "confDir", plugins: ["multus"], names: "directory" },
  { key: "multusConfigFile", plugins: ["multus"], names: "path" },
  { key: "socketDir", plugins: ["multus"], names: "directory" },
  // Set by multus in `runtimeConfig`; device plugins write to it.
  { key: "CNIDeviceInfoFile", plugins: [], names: "path" },
  { key: "cniOutput", plugins: ["debug"], names: "path" },
  { key: "addHooks", plugins: ["debug"], names: "program" },
  { key: "checkHooks", plugins: ["debug"], names: "program" },
  { key: "delHooks", plugins: ["debug"], names: "program" },
  { key: "debugFile", plugins: ["noop"], names: "path" },
  { key: "commandLog", plugins: ["noop"], names: "path" },
  // Text of nft and iptables, which read files and load modules.
  { key: "conditionsV4", plugins: ["portmap"], names: "program" },
  { key: "conditionsV6", plugins: ["portmap"], names: "program" },
  { key: "socket", plugins: ["contivk8s", "remote"], names: "socket" },
  { key: "basePath", plugins: ["contivk8s", "remote"], names: "request" },
  { key: "headers", plugins: ["contivk8s", "remote"], names: "request" },
  { key: "envAll", plugins: ["contivk8s", "remote"], names: "request" },
  {
    key: "socket_file",
    plugins: ["ovs"],
    names: "socket",
    usual: ["unix:/var/run/openvswitch/db.sock"],
  },
  {
    key: "server_socket",
    plugins: ["kube-ovn"],
    names: "socket",
    usual: ["/run/openvswitch/kube-ovn-daemon.sock"],
  },
  { key: "bridge", plugins: ["bridge", "ovs"], names: "interface" },
  { key: "master", plugins: ["ipvlan", "macvlan", "vlan"], names: "interface" },
  { key: "device", plugins: ["host-device"], names: "interface" },
  { key: "deviceID", plugins: ["host-device", "sriov"], names: "interface" },
  { key: "hwaddr", plugins: ["host-device"], names: "interface" },
  { key: "kernelpath", plugins: ["host-device"], names: "interface" },
  { key: "pciBusID", plugins: ["host-device"], names: "interface" },
];

const byKey: ReadonlyMap<string, NodeKey> = new Map(
  NODE_KEYS.map((row) => [foldKey(row.key), row]),
);

/** Finds the row of a key, as {@linkcode foldKey} returns it. */
export function findNodeKey(folded: string): NodeKey | undefined {
  return byKey.get(folded);
}

/** Reports whether a value names a file by a path that is not absolute. */
export function isRelativePath({ names }: NodeKey, value: string): boolean {
  if (value === "" || value.startsWith("/")) return false;
  if (names === "network") return value.includes("/");
  return names !== "interface" && names !== "request";
}

/** Reports whether a value is one of the usual ones. */
export function isUsual({ usual = [] }: NodeKey, value: unknown): boolean {
  return typeof value === "string" &&
    usual.some((one) =>
      one.endsWith("*")
        ? value.startsWith(one.slice(0, -1)) &&
          /^[^/]+$/.test(value.slice(one.lastIndexOf("/") + 1))
        : value === one
    );
}
