/**
 * The sources of the executables.
 *
 * @module
 */

/** What the programs are made of: directories and files in the project's root. */
export const PROGRAM_SOURCES = [
  "net",
  "ffi",
  "base",
  "cni",
  "metadata",
  "libcni",
  "ipam",
  "kube",
  "plugins",
  "node",
  "daemon",
  "cli",
  "testing/conform",
  "testing/ip_json.ts",
  "main.ts",
  "deploy/daemon",
  "scripts/offline",
  "deno.json",
  "deno.lock",
] as const;

/** Further sources, which other programs import by the name of the project. */
export const LIBRARY_SOURCES = [
  "mod.ts",
  "libcni.ts",
  "nftables.ts",
  "traffic_control.ts",
] as const;
