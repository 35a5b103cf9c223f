/**
 * Reads files at paths that a container controls, such as `/proc/PID/root/etc/hosts`. A
 * symbolic link there leads to any file of the node.
 *
 * @module
 */

import { Fd } from "./fd.ts";
import * as libc from "../libc.ts";
import { O_CLOEXEC, O_NONBLOCK, O_RDONLY } from "./open_flags.ts";

/** How much of a file is read, in bytes. */
const MOST_BYTES = 64 * 1024;

/**
 * Reads the first 64 KiB of a regular file. Opens nothing else: opening a device can
 * start it, and reading a file of the kernel such as `/proc/kmsg` can empty it. Waits for
 * no pipe and for no lease.
 *
 * @param kernelDevice The device of kernel files that may be read: these have no size
 * @throws {SyscallError} From open(2) and read(2)
 * @throws {Error} If it is not a regular file
 */
export function readUntrusted(path: string, kernelDevice?: number): string {
  using found = Fd.atPath(path);
  const { isFile, size, dev } = Deno.statSync(found.path);
  if (!isFile) throw new Error(`"${path}" is not a regular file`);
  if (size === 0 && dev !== kernelDevice) return "";
  using fd = new Fd(libc.open(found.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const bytes = new Uint8Array(MOST_BYTES);
  let length = 0;
  while (length < bytes.length) {
    const read = libc.readNow(fd.number, bytes.subarray(length)) ?? 0;
    if (read === 0) break;
    length += read;
  }
  return new TextDecoder().decode(bytes.subarray(0, length));
}
