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
  const script = Deno.makeTempFileSync({ dir: directory, prefix: "bare-" });
  const empty = Deno.makeTempDirSync({ dir: directory });
  const mounts = [
    "for directory in /usr/sbin /sbin /usr/local/sbin; do",
    `  [ ! -d $directory ] || mount --bind "${empty}" $directory`,
    "done",
    "for directory in /usr/bin /bin /usr/local/bin; do",
    `  for name in ${PROGRAMS.join(" ")}; do`,
    "    [ ! -f $directory/$name ] || mount --bind /dev/null $directory/$name",
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
