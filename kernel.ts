/**
 * The kernel's side of a plugin: network namespaces as values, and their
 * contents by netlink, without running other programs.
 *
 * ```ts
 * import type { Call } from "@cni/plugins/plugin";
 * import { openSandbox, Rtnl } from "@cni/plugins/kernel";
 *
 * function listBothSides(call: Call): string[] {
 *   using host = Rtnl.open(call.hostNetns);
 *   using sandbox = openSandbox(call.args);
 *   return [...host.link.list(), ...sandbox.link.list()].map((link) => link.name);
 * }
 * ```
 *
 * All functions are synchronous. A plugin needs `--allow-ffi`, which compiled
 * plugins have, and root's capabilities. The C library is opened on first use.
 *
 * @module
 */

// Namespaces: the container's. `Rtnl.open` opens the host's, `call.hostNetns`.
export {
  checkIfNameIsFree,
  findSandbox,
  openSandbox,
} from "./plugins/parts/sandbox.ts";
export { inNetns, isMissingNetns, NetNs, type Sync } from "./ffi/netns.ts";

// The contents of a namespace: by an open `Rtnl`, or its socket for rare
// requests.
export { Rtnl } from "./ffi/rtnl/mod.ts";
export * from "./ffi/rtnl/link.ts";
export * from "./ffi/rtnl/address.ts";
export {
  type Route,
  type RouteFilter,
  RouteRequests,
} from "./ffi/rtnl/route.ts";
export * from "./ffi/rtnl/neighbor.ts";
export * from "./ffi/rtnl/bridge_vlan.ts";
export { ensureSysctl, readSysctl, writeSysctl } from "./ffi/sysctl.ts";

// The host's end of a link needs a name that DEL can compute again.
export { stableName } from "./plugins/parts/stable_name.ts";

// CHECK: compares the kernel's state with a result.
export {
  checkAddresses,
  checkFailure,
  checkLink,
  checkRoutes,
  sandboxInterfaceOf,
} from "./plugins/parts/check_link.ts";
export {
  addressesOf,
  ownIpsOf,
  readablePrevResult,
} from "./plugins/parts/prev_result.ts";

// Errors of the kernel: compare `errno`, never messages.
export { isErrno, SyscallError } from "./ffi/errno.ts";
export { NetlinkError } from "./ffi/netlink/error.ts";

// State in files, shared with other processes.
export { FileLock } from "./cni/files/lock.ts";
