/**
 * Restores forwarding, which ADD changes on the node and DEL does not restore. A process
 * of its own does it, which continues if this process is killed.
 *
 * @module
 */

import { shell } from "../../../base/command_line/shell.ts";
import { ifPossible } from "../../../base/files/io.ts";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { readSysctl } from "../../../ffi/sysctl.ts";

/** Parameters of all links; each also sets the parameter of every link. */
const FIRST = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"];
const OF_LINKS = ["ipv4/conf/*/forwarding", "ipv6/conf/*/forwarding"];
const ACCEPT_RA = "ipv6/conf/*/accept_ra";

/** A process that waits until it is released, or until this process ends. */
export class Guard implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  /**
   * Records the parameters of the node.
   *
   * @param commands Commands to run if this process is killed
   */
  static start(host: NetNs, commands: readonly string[]): Guard {
    const values = inNetns(host, () => readAll());
    const put = values.map(([key, value]) => {
      const path = shell`/proc/sys/${key}`;
      // Writing a parameter can change others, even if its value is the same.
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

  /** Restores the parameters, and waits until that is done. */
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
