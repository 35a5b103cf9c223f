/**
 * Programs that see other files than the machine's: without network programs, with
 * other ones, or with a /run that cannot be written.
 *
 * @module
 */

import { unlessMissing } from "../../base/files/io.ts";
import { execIn, type ExecOutput } from "../../testing/exec_in.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { BIN } from "./executables.ts";
import type { Keys } from "./plugin_scene.ts";

/**
 * Returns the path of a script that runs a program in a mount namespace of its
 * own. Network namespaces are not changed.
 *
 * @param directory Where the script is written; the caller removes it
 * @param program Path of the program
 * @param mounts Lines of shell, without single quotes
 * @param root The root directory of the program; the machine's by default
 */
export function withMounts(
  directory: string,
  program: string,
  mounts: readonly string[],
  root?: string,
): string {
  const script = Deno.makeTempFileSync({ dir: directory, prefix: "mounts-" });
  const enter = root === undefined ? "" : `chroot "${root}" `;
  Deno.writeTextFileSync(
    script,
    `#!/bin/sh
exec unshare --mount --propagation private sh -ec '
${mounts.join("\n")}
exec ${enter}"$0" "$@"' '${program}' "$@"
`,
  );
  Deno.chmodSync(script, 0o755);
  return script;
}

/** Programs of the network, wherever a host has them. */
const NETWORK_PROGRAMS = [
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
    NETWORK_PROGRAMS.map((name) => `${directory}/${name}`)
  );
  return [
    ...["/usr/sbin", "/sbin", "/usr/local/sbin"].filter(isThere)
      .map((path) => `${empty} ${path} none bind`),
    ...files.filter(isThere).map((path) => `/dev/null ${path} none bind`),
  ];
}

/** Where a host has its iptables, nft and iproute2. */
const PROGRAM_DIRECTORIES: readonly string[] = [
  "/usr/local/sbin",
  "/usr/local/bin",
  "/usr/sbin",
  "/usr/bin",
];

/** Which iptables a host has, as a script that puts it into the directory $1. */
export const PROGRAMS: Readonly<Record<string, string>> = {
  "no program at all": "",
  "iptables-nft": link("xtables-nft-multi"),
  "iptables-legacy": link("xtables-legacy-multi"),
  // As k3s has it.
  "a script as iptables": `${link("xtables-legacy-multi")}
    cp /bin/dash $1/sh
    for program in iptables ip6tables; do
      for name in $program $program-restore; do
        mv $1/$name $1/$name-real
        printf '#!/usr/sbin/sh\\nexec /usr/sbin/xtables-legacy-multi '$name' "$@"\\n' > $1/$name
        chmod +x $1/$name
      done
    done`,
  "an iptables without its kernel modules": `
    cp /bin/dash $1/sh
    for program in iptables ip6tables; do
      printf '#!/usr/sbin/sh\nexit 3\n' > $1/$program
      printf '#!/usr/sbin/sh\nexit 2\n' > $1/$program-restore
      chmod +x $1/$program $1/$program-restore
    done`,
  "an iptables that does not start": `
    for name in iptables iptables-restore ip6tables ip6tables-restore; do
      printf '#!/none\\n' > $1/$name
      chmod +x $1/$name
    done`,
};

function link(multi: string): string {
  return `cp $(realpath /usr/sbin/${multi}) $1/${multi}
    for name in iptables iptables-restore ip6tables ip6tables-restore; do
      ln -s ${multi} $1/$name
    done`;
}

/** Which tables there are already, as a script that makes them. */
export const OTHERS: Readonly<Record<string, string>> = {
  "nobody's tables": "",
  "tables by iptables-legacy": makeTables("legacy"),
  "tables by iptables-nft": makeTables("nft"),
  "tables by nft": `for family in ip ip6; do
    nft "table $family nat { chain postrouting {
      type nat hook postrouting priority 100; oifname \\"wan0\\" masquerade; }; }"
  done`,
};

function makeTables(variant: string): string {
  return ["iptables", "ip6tables"].map((program) =>
    `${program}-${variant} -t nat -A POSTROUTING -o wan0 -j MASQUERADE`
  ).join("\n");
}

/** The programs of one host. */
export class HostPrograms {
  readonly #hosts: TestHosts;
  readonly #directory: string;
  /** What is mounted, as mount(8) reads it. */
  readonly #mounts: string;

  /** @param script One of {@linkcode PROGRAMS} */
  constructor(hosts: TestHosts, script: string) {
    this.#hosts = hosts;
    this.#directory = Deno.makeTempDirSync({ dir: hosts.directory });
    this.#mounts = `${this.#directory}.fstab`;
    // The legacy programs need a file for their lock; nothing else does.
    const mode = /legacy/.test(script) ? "rw" : "ro";
    const mounts = [
      `programs /run tmpfs ${mode}`,
      ...PROGRAM_DIRECTORIES.map((path) =>
        `${this.#directory} ${path} none bind`
      ),
    ];
    Deno.writeTextFileSync(this.#mounts, mounts.join("\n"));
    runIn(hosts.host, "sh", "-ec", script, "sh", this.#directory);
  }

  /** Runs a plugin's executable, which finds no other programs. */
  exec(type: string, command: string, config: Keys): ExecOutput {
    const script = `mount -n -a -T ${this.#mounts}; exec ${BIN}/${type}`;
    return execIn(this.#hosts.host, {
      path: "/usr/bin/unshare",
      args: ["-m", "/bin/sh", "-ec", script],
      env: {
        ...this.#hosts.environment(command),
        CNI_PATH: BIN,
        PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
      },
      stdin: JSON.stringify(config),
    });
  }
}
