/**
 * Restores forwarding, which ADD turns on and DEL does not turn off. A process of its
 * own does it, which continues if this process is killed.
 *
 * @module
 */

import { JoinedSignal, waitUntil } from "../../../base/deadline.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { MODULE_LINKS } from "../../../ffi/rtnl/link.ts";
import { listSysctls, readSysctl } from "../../../ffi/sysctl.ts";
import type { IpFamily } from "../../../net/ip.ts";
import {
  AcceptRa,
  acceptRaOf,
  FORWARDING,
} from "../../../plugins/parts/address/ip_forward.ts";

/** What the process restores, and when. */
export interface GuardOptions {
  readonly host: NetNs;
  /**
   * Names of the links that the host had before ADD. With any other link that no
   * kernel module creates by itself, an attachment has appeared that relies on
   * forwarding: nothing is restored then.
   */
  readonly links: Iterable<string>;
  /** Names of the links that ADD might create, and that DEL keeps. */
  readonly shared: readonly string[];
  /** Commands to run if this process is killed. */
  readonly commands: readonly string[];
}

/** Where the kernel has a directory for each link. */
const LINKS = "/proc/sys/net/ipv4/conf";
/** Longest wait for the process, in ms: the kernel makes it wait for other changes. */
const RESTORE_MS = 30_000;

/**
 * A parameter to restore: it has the value if the operator holds between what it is
 * now and the operand.
 */
type Restoration = readonly [
  /** Those that follow a "first" one are restored only if that one is. */
  place: "first" | "next",
  key: string,
  operator: "=" | "!=",
  operand: string,
  value: string,
];

/**
 * Writes the script that restores parameters, or prints each first one that it does
 * not restore because of another attachment. Its arguments are the names of the known
 * links, and then the elements of each {@linkcode Restoration}: a script with all of
 * them would exceed the limit of an argument, 128 KiB.
 */
function scriptOf(commands: readonly string[]): string {
  return `trap '' INT TERM HUP
known=" $1 "
shift
# Also known is the gateway of a VLAN, such as cni0.7.
is_alone() {
  for path in ${LINKS}/*; do
    name=\${path##*/}
    case $known in *" $name "*|*" \${name%.*} "*) ;; *) return 1;; esac
  done
}
if ! read -r how; then
  exec >/dev/null
  ${commands.join("\n")}
  # The kernel deletes the links of a namespace a little after its last process.
  for _ in 1 2 3 4 5; do is_alone && break; sleep 1; done
fi
alone=no due=no
is_alone && alone=yes
while [ $# -gt 0 ]; do
  place=$1 key=$2 operator=$3 operand=$4 value=$5
  shift 5
  [ $place = first ] && due=yes
  [ $due = yes ] || continue
  now=
  read -r now <"/proc/sys/$key"
  if [ "$now" $operator $operand ]; then
    if [ $alone = yes ]; then
      echo $value >"/proc/sys/$key"
      continue
    fi
    echo "$key"
  fi
  [ $place = first ] && due=no
done
exit 0`;
}

/** A process that waits until it is released, or until this process ends. */
export class Guard {
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  /** Records the parameters of the host, and starts the process. */
  static start({ host, links, shared, commands }: GuardOptions): Guard {
    const names = ["all", "default", ...MODULE_LINKS, ...links, ...shared];
    const child = inNetns(host, () => {
      const restorations = [
        ...listRestorations(4, shared),
        ...listRestorations(6),
      ];
      const known = names.join(" ");
      const args = [
        "-c",
        scriptOf(commands),
        "sh",
        known,
        ...restorations.flat(),
      ];
      return new Deno.Command("/bin/sh", {
        args,
        stdin: "piped",
        stdout: "piped",
        stderr: "null",
      }).spawn();
    });
    return new Guard(child);
  }

  /**
   * Restores the parameters, and waits until that is done.
   *
   * @returns The parameters that stay as they are, because another attachment relies
   *   on them; without those of links that follow another one
   * @throws {Error} If it takes too long, and goes on, or the process has ended
   */
  async release(): Promise<string[]> {
    const { stdin, pid } = this.#child;
    const output = this.#child.output();
    using limit = new JoinedSignal(RESTORE_MS);
    const writer = stdin.getWriter();
    // If the process has ended, its exit status shows it.
    const closing = writer.write(new TextEncoder().encode("done\n"))
      .then(() => writer.close()).catch(() => {});
    await waitUntil(closing, limit.signal);
    const ended = await waitUntil(output, limit.signal);
    if (ended === undefined) {
      this.#child.unref();
      throw new Error(
        `process ${pid}, which restores forwarding, has not ended in time`,
      );
    }
    if (!ended.success) {
      throw new Error(
        "forwarding is not restored: the process for it was ended",
      );
    }
    const text = new TextDecoder().decode(ended.stdout);
    return text.split("\n").filter((key) => key !== "");
  }
}

/**
 * Lists how to turn forwarding of a family off again, if it is off now and then has
 * the value that ADD sets: another value is an administrator's. With the parameter of
 * the family, the kernel sets the parameter of each link.
 *
 * @param shared Links whose own parameter ADD sets, even if the host forwards
 */
function listRestorations(
  family: IpFamily,
  shared: readonly string[] = [],
): Restoration[] {
  const conf = `net/ipv${family}/conf`;
  const forwardingOf = (link: string): string => `${conf}/${link}/forwarding`;
  if (readIfPossible(FORWARDING[family]) !== "0") {
    return shared.map(forwardingOf)
      .filter((key) => readIfPossible(key) === "0")
      .map((key) => ["first", key, "=", "1", "0"]);
  }
  const links = ifPossible(() => listSysctls(conf)) ?? [];
  return [
    ["first", FORWARDING[family], "=", "1", "0"],
    // Writing a parameter can change other parameters, even if its value is the same.
    ...links.map(forwardingOf).flatMap((key): Restoration[] => {
      const value = readIfPossible(key);
      return value === undefined ? [] : [["next", key, "!=", value, value]];
    }),
    ...family === 4 ? [] : links.map(acceptRaOf)
      .filter((key) => readIfPossible(key) === AcceptRa.unlessForwarding)
      .map((key): Restoration => [
        "next",
        key,
        "=",
        AcceptRa.always,
        AcceptRa.unlessForwarding,
      ]),
  ];
}

function readIfPossible(key: string): string | undefined {
  return ifPossible(() => readSysctl(key));
}
