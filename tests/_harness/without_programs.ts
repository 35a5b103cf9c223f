/**
 * A host as bare as some are: without network programs, or with a /run that
 * cannot be written.
 *
 * @module
 */

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
 * the folders of system programs are empty, and the network's programs
 * elsewhere cannot be executed. Network namespaces are not changed.
 *
 * @param folder Where the script is written; the caller removes it
 * @param program Path of the program
 */
export function withoutPrograms(
  folder: string,
  program: string,
  { readOnlyRun = false }: BareHostOptions = {},
): string {
  const script = Deno.makeTempFileSync({ dir: folder, prefix: "bare-" });
  const empty = Deno.makeTempDirSync({ dir: folder });
  const mounts = [
    "for folder in /usr/sbin /sbin /usr/local/sbin; do",
    `  [ ! -d $folder ] || mount --bind "${empty}" $folder`,
    "done",
    "for folder in /usr/bin /bin /usr/local/bin; do",
    `  for name in ${PROGRAMS.join(" ")}; do`,
    "    [ ! -f $folder/$name ] || mount --bind /dev/null $folder/$name",
    "  done",
    "done",
    ...readOnlyRun
      ? ["mount --bind /run /run", "mount -o remount,bind,ro /run"]
      : [],
    'exec "$0" "$@"',
  ];
  Deno.writeTextFileSync(
    script,
    `#!/bin/sh
exec unshare --mount --propagation private sh -ec '
${mounts.join("\n")}' '${program}' "$@"
`,
  );
  Deno.chmodSync(script, 0o755);
  return script;
}
