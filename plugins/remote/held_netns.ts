/**
 * A container's namespace under a path such as /proc/PID/ns/net, for daemons that can
 * only find it through a process.
 *
 * @module
 */

import { inNetns, NetNs } from "../../ffi/netns.ts";
import type { CmdArgs } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { checkSeen, isMissingSandbox } from "../parts/sandbox/sandbox.ts";
import type { RemoteCall } from "./call.ts";

/** A path of the namespace, until disposal. */
export interface HeldNetns extends Disposable {
  /** The path; "" if the namespace no longer exists. */
  readonly path: string;
}

const OF_PROCESS = /^\/proc\/\d+\/ns\/net$/;

/**
 * Starts a process in the namespace, if the daemon needs a process and the path does
 * not already contain one.
 *
 * @throws {CniError} 8 if the namespace cannot be entered; not in DEL if it was
 * deleted
 */
export function holdNetns(
  { command, args, config, env }: Pick<
    RemoteCall,
    "command" | "args" | "config" | "env"
  >,
): HeldNetns {
  const { netns: path } = args;
  const isReady = path === "" || OF_PROCESS.test(path) ||
    config.netnsMode === "path";
  if (isReady) return { path, [Symbol.dispose]: (): void => {} };
  try {
    const child = startIn(args, env["PATH"]);
    return {
      path: `/proc/${child.pid}/ns/net`,
      [Symbol.dispose](): void {
        // The process exits when its input ends.
        child.stdin.close().catch(() => {});
        child.status.catch(() => {});
      },
    };
  } catch (cause) {
    if (command === "DEL" && isMissingSandbox(cause)) {
      return { path: "", [Symbol.dispose]: (): void => {} };
    }
    throw new CniError(
      ErrorCode.InvalidNetns,
      `Contiv:Cannot start a process in "${path}"`,
      { cause },
    );
  }
}

function startIn(
  args: Pick<CmdArgs, "netns">,
  searchPath = "",
): Deno.ChildProcess {
  using netns = NetNs.open(args.netns);
  checkSeen(args, netns);
  return inNetns(netns, () =>
    new Deno.Command("cat", {
      env: searchPath === "" ? {} : { PATH: searchPath },
      clearEnv: true,
      stdin: "piped",
      stdout: "null",
      stderr: "null",
    }).spawn());
}
