/**
 * The keys of plugins that are secret. `deno task schemas` writes it from
 * the facts of all plugins.
 *
 * @module
 */

// deno-fmt-ignore-file

/** Sorted. */
export const SECRET_KEYS: readonly string[] = ["etcd_password"];
