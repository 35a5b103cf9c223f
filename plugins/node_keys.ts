/**
 * The keys of configurations that name something of the node, for code that
 * must know them without the plugins' schemas.
 *
 * @module
 */

import { foldKey } from "../base/json/json.ts";
import type { Named } from "../metadata/plugin_keys.ts";
import { PLUGIN_NODE_KEYS } from "./lists/key_tables.ts";

/** A key that names something of the node. */
export interface NodeKey {
  /** As documented; plugins read keys in any case. */
  readonly key: string;
  readonly names: Named;
  /**
   * Values that name what the plugin uses by default, or something harmless.
   * `*` at the end stands for the rest of a file name.
   */
  readonly usual?: readonly string[];
}

/**
 * Keys that no schema of a plugin has: other projects' plugins read them, which
 * definitions in use name, or this project's programs do.
 */
const OTHER_NODE_KEYS: readonly NodeKey[] = [
  { key: "log_file_path", names: "path" },
  { key: "ipam_lock_file", names: "path" },
  { key: "nodename_file", names: "path" },
  { key: "multusConfigFile", names: "path" },
  { key: "socketDir", names: "directory" },
  { key: "debugFile", names: "path" },
  { key: "commandLog", names: "path" },
  {
    key: "socket_file",
    names: "socket",
    usual: ["unix:/var/run/openvswitch/db.sock"],
  },
  {
    key: "server_socket",
    names: "socket",
    usual: ["/run/openvswitch/kube-ovn-daemon.sock"],
  },
];

/** The keys. `deno task schemas` writes the keys of plugins. */
export const NODE_KEYS: readonly NodeKey[] = [
  ...PLUGIN_NODE_KEYS.map(([key, names, ...usual]): NodeKey => ({
    key,
    names,
    usual,
  })),
  ...OTHER_NODE_KEYS,
];

const byKey: ReadonlyMap<string, NodeKey> = new Map(
  NODE_KEYS.map((row) => [foldKey(row.key), row]),
);

/** Finds the row of a key, as {@linkcode foldKey} returns it. */
export function findNodeKey(folded: string): NodeKey | undefined {
  return byKey.get(folded);
}

const NOT_FILES: readonly Named[] = [
  "address",
  "firewall",
  "interface",
  "request",
];

/** Reports whether a value names a file by a path that is not absolute. */
export function isRelativePath({ names }: NodeKey, value: string): boolean {
  if (value === "" || value.startsWith("/")) return false;
  if (names === "network") return value.includes("/");
  return !NOT_FILES.includes(names);
}

/** Reports whether a value is one of the usual ones. */
export function isUsual({ usual = [] }: NodeKey, value: unknown): boolean {
  if (typeof value !== "string" && typeof value !== "number") return false;
  const text = String(value);
  return usual.some((one) =>
    one.endsWith("*")
      ? text.startsWith(one.slice(0, -1)) &&
        /^[^/]+$/.test(text.slice(one.lastIndexOf("/") + 1))
      : text === one
  );
}
