/**
 * Restores forwarding, which ADD turns on and DEL does not turn off. A process of its
 * own does it, which continues if this process is killed.
 *
 * @module
 */

import { quoteAlways, shell } from "../../../base/command_line/shell.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
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
   * Names of the links that the host had before ADD. With any other link, an attachment
   * has appeared that relies on forwarding: nothing is restored then.
   */
  readonly links: Iterable<string>;
  /** Names of the links that ADD may create, and that DEL keeps. */
  readonly shared: readonly string[];
  /** Commands to run if this process is killed. */
  readonly commands: readonly string[];
}

/** Where the kernel has a directory for each link. */
const LINKS = "/proc/sys/net/ipv4/conf";

/** A process that waits until it is released, or until this process ends. */
export class Guard implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  /** Records the parameters of the host, and starts the process. */
  static start({ host, links, shared, commands }: GuardOptions): Guard {
    const names = ["all", "default", ...links, ...shared];
    const known = quoteAlways(` ${names.join(" ")} `);
    const script = [
      "trap '' INT TERM HUP",
      "read -r how || how=killed",
      // Also known is the gateway of a VLAN, such as cni0.7.
      `is_alone() { for path in ${LINKS}/*; do name=\${path##*/}; ` +
      `case ${known} in *" $name "*|*" \${name%.*} "*) ;; *) return 1;; esac; ` +
      "done; }",
      'if [ "$how" = killed ]; then :',
      ...commands,
      // The kernel deletes the links of a namespace a little after its last process.
      "for _ in 1 2 3 4 5; do is_alone && break; sleep 1; done",
      "fi",
      "is_alone || exit 0",
      ...inNetns(host, () => [
        ...restoring(4, shared),
        ...restoring(6),
      ]),
    ].join("\n");
    const child = inNetns(host, () => {
      const quiet = { stdout: "null", stderr: "null" } as const;
      const options = { args: ["-c", script], ...quiet };
      return new Deno.Command("/bin/sh", { ...options, stdin: "piped" })
        .spawn();
    });
    return new Guard(child);
  }

  /** Restores the parameters, and waits until that is done. */
  async [Symbol.asyncDispose](): Promise<void> {
    const writer = this.#child.stdin.getWriter();
    await writer.write(new TextEncoder().encode("done\n"));
    await writer.close();
    await this.#child.status;
  }
}

/**
 * Writes commands that turn forwarding of a family off again, if it is off now and
 * then has the value that ADD sets: another value is an administrator's. With the
 * parameter of the family, the kernel sets the parameter of each link.
 *
 * @param shared Links whose own parameter ADD sets, even if the host forwards
 */
function restoring(
  family: IpFamily,
  shared: readonly string[] = [],
): string[] {
  const conf = `net/ipv${family}/conf`;
  const forwardingOf = (link: string): string => `${conf}/${link}/forwarding`;
  if (readIfPossible(FORWARDING[family]) !== "0") {
    return shared.map(forwardingOf)
      .filter((key) => readIfPossible(key) === "0")
      .flatMap((key) => restore(key, "= 1", "0"));
  }
  const links = ifPossible(() => listSysctls(conf)) ?? [];
  return [
    `if [ "$(cat ${pathOf(FORWARDING[family])})" = 1 ]; then`,
    `echo 0 >${pathOf(FORWARDING[family])}`,
    ...links.map(forwardingOf)
      // Writing a parameter can change others, even if its value is the same.
      .flatMap((key) => {
        const value = readIfPossible(key);
        return value === undefined ? [] : restore(key, `!= ${value}`, value);
      }),
    ...family === 4 ? [] : links.map(acceptRaOf)
      .filter((key) => readIfPossible(key) === AcceptRa.unlessForwarding)
      .flatMap((key) =>
        restore(key, `= ${AcceptRa.always}`, AcceptRa.unlessForwarding)
      ),
    "fi",
  ];
}

function restore(key: string, test: string, value: string): string[] {
  const path = pathOf(key);
  return [`[ "$(cat ${path})" ${test} ] && echo ${value} >${path}`];
}

function pathOf(key: string): string {
  return shell`/proc/sys/${key}`;
}

function readIfPossible(key: string): string | undefined {
  return ifPossible(() => readSysctl(key));
}
