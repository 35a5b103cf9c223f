/**
 * The configuration keys that name objects of the node, for code that needs them
 * without the plugins' schemas.
 *
 * @module
 */

import { foldKey } from "../base/json/json.ts";
import type { Named } from "../metadata/plugin_keys.ts";
import { PLUGIN_NODE_KEYS } from "./lists/key_tables.ts";

/** A key that names an object of the node. */
export interface NodeKey {
  /** The documented spelling; plugins read keys case-insensitively. */
  readonly key: string;
  readonly names: Named;
  /**
   * Values that name the plugin's default, or a harmless object. `*` at the end
   * matches the rest of a file name.
   */
  readonly usual?: readonly string[];
}

/**
 * Keys that no plugin schema contains: keys of other projects' plugins that existing
 * definitions use, and keys of this project's programs.
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

/** Reports whether a value is a relative path of a file. */
export function isRelativePath({ names }: NodeKey, value: string): boolean {
  if (value === "" || value.startsWith("/")) return false;
  if (names === "network") return value.includes("/");
  return !NOT_FILES.includes(names);
}

/** Reports whether a value is in the list of usual values. */
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
