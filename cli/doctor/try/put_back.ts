/**
 * Puts back what an ADD changes on the node and a DEL leaves: forwarding. A process
 * of its own does it, which also outlives this one if that is killed.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { readSysctl } from "../../../ffi/sysctl.ts";

/** Parameters of all links, which the first one of a family sets, too. */
const FIRST = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];
const OF_LINKS = ["ipv4/conf/*/forwarding", "ipv6/conf/*/forwarding"];
const ACCEPT_RA = "ipv6/conf/*/accept_ra";

/** A guard, which waits until it is let go, or this process ends. */
export class Guard implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  /**
   * Remembers how the node is.
   *
   * @param commands What else to run if this process is killed
   */
  static start(host: NetNs, commands: readonly string[]): Guard {
    const values = inNetns(host, () => readAll());
    const put = values.map(([key, value]) => {
      const path = shell`/proc/sys/${key}`;
      // Writing what a parameter has already may change others.
      return `[ "$(cat ${path} 2>/dev/null)" = "${value}" ] || ` +
        `echo ${value} >${path}`;
    });
    const script = [
      "trap '' INT TERM HUP",
      "read -r how || how=killed",
      `if [ "$how" = killed ]; then :; ${commands.join("; ")}; fi`,
      ...put,
    ].join("\n");
    const child = inNetns(host, () => {
      const quiet = { stdout: "null", stderr: "null" } as const;
      const options = { args: ["-c", script], ...quiet };
      return new Deno.Command("/bin/sh", { ...options, stdin: "piped" })
        .spawn();
    });
    return new Guard(child);
  }

  /** Puts everything back, and waits until that is done. */
  async [Symbol.asyncDispose](): Promise<void> {
    const writer = this.#child.stdin.getWriter();
    await writer.write(new TextEncoder().encode("done\n"));
    await writer.close();
    await this.#child.status;
  }
}

function readAll(): [key: string, value: string][] {
  const keys = [...FIRST, ...[...OF_LINKS, ACCEPT_RA].flatMap(expand)];
  return keys.flatMap((key) => {
    const value = ifPossible(() => readSysctl(key));
    return value !== undefined && /^-?\d+$/.test(value) ? [[key, value]] : [];
  });
}

/** Lists the parameters of all links. */
function expand(pattern: string): string[] {
  const [before = "", after = ""] = pattern.split("*");
  const directory = `/proc/sys/net/${before}`;
  const links = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return links.map(({ name }) => `net/${before}${name}${after}`);
}
