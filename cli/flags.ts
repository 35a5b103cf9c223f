/**
 * The flags of `cni`.
 *
 * @module
 */

import type {
  CommandCall,
  FlagTable,
  FlagValues,
  STANDARD_FLAGS,
} from "../tool/command.ts";

/** All flags by long name. */
export const FLAGS = {
  "ifname": {
    short: "i",
    value: "NAME",
    summary: "name of the interface; overrides CNI_IFNAME (default eth0)",
  },
  "container-id": {
    value: "ID",
    summary: "container ID (default derived from the namespace's path)",
  },
  "no-undo": {
    summary: "does not undo a failed ADD, so that it can be inspected",
  },
  "all": {
    summary: "removes all attachments; takes no namespaces",
  },
  "dry-run": { summary: "shows what would be deleted without deleting it" },
  "strict": { summary: "treats notes and warnings as errors" },
  "force": {
    summary: "deletes the namespace even if it is attached to networks",
  },
  "to": {
    value: "FORM",
    summary: "target form, chain or list (default the other one)",
    completes: ["chain", "list"],
  },
  "output": {
    value: "FILE",
    summary: "writes to this file, or to stdout for -",
    completes: "file",
  },
  "write": { summary: "replaces the input file" },
  "cni-path": {
    value: "FOLDERS",
    summary: "colon-separated folders with plugins; overrides CNI_PATH",
    completes: "directory",
  },
  "conf-dir": {
    value: "FOLDER",
    summary: "folder with configurations; overrides NETCONFPATH",
    completes: "directory",
  },
  "cache-dir": {
    value: "FOLDER",
    summary: "folder with the attachment cache (default /var/lib/cni)",
    completes: "directory",
  },
  "wide": { summary: "shows container IDs in full" },
  "exit-code": { summary: "exits with 1 if there is a problem" },
  "undo-timeout": {
    value: "TIME",
    default: "30s",
    summary: "time limit for undoing a failed ADD",
  },
  "verbose": { summary: "shows the plugins' output while ADD is undone" },
} as const satisfies FlagTable;

/** A flag's long name. */
export type FlagName = keyof typeof FLAGS;

/** A call of a command of `cni`. Flags that the command does not have are absent. */
export type CniCall = CommandCall<CniFlags>;

/** The values of flags. */
export type CniFlags = Partial<
  FlagValues<typeof FLAGS & typeof STANDARD_FLAGS>
>;

/** Picks flags of `cni` for a command. */
export function pick(...names: readonly FlagName[]): FlagTable {
  return Object.fromEntries(names.map((name) => [name, FLAGS[name]]));
}

/** The flags for folders. */
export const FOLDERS = ["cni-path", "conf-dir", "cache-dir"] as const;
