/**
 * The kernel's side of a plugin: network namespaces as values, and what is in
 * them by netlink, without any other program.
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
 * All of it is synchronous. A plugin needs `--allow-ffi`, which compiled ones
 * have, and root's capabilities; the C library is opened on first use.
 *
 * @module
 */

// Namespaces: that of `call.hostNetns` by `Rtnl.open`, the container's by these.
export {
  checkIfNameIsFree,
  findSandbox,
  openSandbox,
} from "./plugins/parts/sandbox.ts";
export { inNetns, isMissingNetns, NetNs, type Sync } from "./ffi/netns.ts";

// What is in a namespace: by an open `Rtnl`, or by its socket for what few need.
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

// The host's end of a link needs a name that DEL finds again.
export { stableName } from "./plugins/parts/stable_name.ts";

// CHECK: whether all that is as a result says.
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

// What the kernel refuses: compare `errno`, never texts.
export { isErrno, SyscallError } from "./ffi/errno.ts";
export { NetlinkError } from "./ffi/netlink/error.ts";

// State in files, shared with other processes.
export { FileLock } from "./cni/file_lock.ts";
