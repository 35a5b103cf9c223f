/**
 * Creates tap devices.
 *
 * @module
 */

import { checkChange } from "./change_check.ts";
import { struct, u16 } from "../net/bytes.ts";
import { Fd } from "./file/fd.ts";
import { O_CLOEXEC, O_RDWR } from "./file/open_flags.ts";
import * as libc from "./libc.ts";
import { inNetns, type NetNs } from "./netns.ts";

/** The file through which programs create and open tap devices. */
const TUN_FILE = "/dev/net/tun";
/** Source: include/uapi/linux/if_tun.h. */
const IFF_TAP = 0x2, IFF_MULTI_QUEUE = 0x100, IFF_NO_PI = 0x1000;
const IFF_TUN_EXCL = 0x8000;
const TUNSETIFF = 0x400454can, TUNSETPERSIST = 0x400454cbn;
const TUNSETOWNER = 0x400454ccn, TUNSETGROUP = 0x400454cen;
/** Source: include/uapi/linux/if.h `struct ifreq`. */
const IFREQ_BYTES = 40, IFREQ_FLAGS = 16;
const ifreqFlags = struct({ flags: u16 });

/** A tap device to create. */
export interface NewTap {
  /** The device's name, 1 to 15 bytes. */
  readonly name: string;
  /** Whether a program can open several queues. */
  readonly isMultiQueue: boolean;
  /**
   * ID of the user that is permitted to open it without CAP_NET_ADMIN; undefined for
   * any user.
   */
  readonly owner?: number | undefined;
  /** ID of the group that is permitted to open it; undefined for any group. */
  readonly group?: number | undefined;
}

/**
 * Creates a tap device in a namespace, down. It stays until it is deleted. If
 * the process is killed before this returns, the kernel removes it.
 *
 * @throws {SyscallError} EBUSY if the name is taken; ENOENT or ENODEV without
 *   `/dev/net/tun`
 */
export function createTap(netns: NetNs, tap: NewTap): void {
  const { name, isMultiQueue, owner, group } = tap;
  const request = new Uint8Array(IFREQ_BYTES);
  new TextEncoder().encodeInto(name, request.subarray(0, IFREQ_FLAGS - 1));
  const flags = IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL |
    (isMultiQueue ? IFF_MULTI_QUEUE : 0);
  request.set(ifreqFlags.encode({ flags }), IFREQ_FLAGS);
  inNetns(netns, () => {
    const flags = O_RDWR | O_CLOEXEC;
    using file = new Fd(libc.open(TUN_FILE, flags, `open ${TUN_FILE}`));
    const set = (code: bigint, value: number): void =>
      libc.controlWithNumber(file.number, code, value);
    checkChange();
    libc.controlWithBytes(file.number, TUNSETIFF, request);
    if (owner !== undefined) set(TUNSETOWNER, owner);
    if (group !== undefined) set(TUNSETGROUP, group);
    set(TUNSETPERSIST, 1);
  });
}
