/**
 * Creates a tap device with an SELinux context.
 *
 * The kernel labels a device with the context of the process that creates it. All
 * threads of a process have the same context, which only changes when a new program
 * is executed. Therefore, only in this case, `ip` of iproute2 creates the device.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { checkChange } from "../../ffi/change_check.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import type { NewTap } from "../../ffi/tun.ts";

/** The context of the programs that this thread starts. */
const EXEC_CONTEXT = "/proc/thread-self/attr/exec";
/** Source: security/selinux/hooks.c `selinux_lsm_setattr`. */
const DEFAULT_CONTEXT = "\n";

/**
 * Creates a tap device in a namespace, down.
 *
 * @throws {CniError} 7 if the kernel refuses the context, as it does without
 *   SELinux
 * @throws {Error} If `ip` is missing or fails
 */
export function createTapAs(context: string, netns: NetNs, tap: NewTap): void {
  const { name, isMultiQueue, owner, group } = tap;
  const args = [
    ...["tuntap", "add", "mode", "tap", "name", name],
    ...isMultiQueue ? ["multi_queue"] : [],
    ...owner === undefined ? [] : ["user", `${owner}`],
    ...group === undefined ? [] : ["group", `${group}`],
  ];
  inNetns(netns, () => {
    checkChange();
    setContext(context);
    try {
      const command = new Deno.Command("ip", { args, stdin: "null" });
      const { success, stderr } = command.outputSync();
      if (success) return;
      throw new Error(`ip: ${new TextDecoder().decode(stderr).trim()}`);
    } finally {
      setContext(DEFAULT_CONTEXT);
    }
  });
}

function setContext(context: string): void {
  try {
    Deno.writeTextFileSync(EXEC_CONTEXT, context);
  } catch (cause) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `failed set socket label: cannot use SELinux context "${context}"`,
      { cause },
    );
  }
}
