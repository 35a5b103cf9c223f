/**
 * A host as bare as some are: without network programs, or with a /run that
 * cannot be written.
 *
 * @module
 */

import { unlessMissing } from "../../cni/files/io.ts";
import { withMounts } from "./with_mounts.ts";

/** Programs of the network, wherever a host has them. */
const PROGRAMS = [
  "arptables",
  "bridge",
  "conntrack",
  "ebtables",
  "ip",
  "ip6tables",
  "iptables",
  "modprobe",
  "nft",
  "sysctl",
  "tc",
] as const;

/** Further programs that the host lacks. */
export interface BareHostOptions {
  /** Whether /run is read-only. */
  readonly readOnlyRun?: boolean;
}

/**
 * Returns the path of a script that runs a program in a mount namespace where
 * the directories of system programs are empty, and the network's programs
 * elsewhere cannot be executed. Network namespaces are not changed.
 *
 * @param directory Where the script is written; the caller removes it
 * @param program Path of the program
 */
export function withoutPrograms(
  directory: string,
  program: string,
  { readOnlyRun = false }: BareHostOptions = {},
): string {
  const empty = Deno.makeTempDirSync({ dir: directory });
  const mounts = `${empty}.fstab`;
  Deno.writeTextFileSync(mounts, listMasks(empty).join("\n"));
  return withMounts(directory, program, [
    `mount -n -a -T "${mounts}"`,
    ...readOnlyRun
      ? ["mount --bind /run /run", "mount -o remount,bind,ro /run"]
      : [],
  ]);
}

/** Lists what lies over the programs, as mount(8) reads it. */
function listMasks(empty: string): string[] {
  const isThere = (path: string): boolean =>
    unlessMissing(() => Deno.statSync(path)) !== undefined;
  const files = ["/usr/bin", "/bin", "/usr/local/bin"].flatMap((directory) =>
    PROGRAMS.map((name) => `${directory}/${name}`)
  );
  return [
    ...["/usr/sbin", "/sbin", "/usr/local/sbin"].filter(isThere)
      .map((path) => `${empty} ${path} none bind`),
    ...files.filter(isThere).map((path) => `/dev/null ${path} none bind`),
  ];
}
