/**
 * inotify(7).
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import {
  checked,
  cString,
  openSymbols,
  PADDING,
  UNCOMPILED,
  unlessBusy,
} from "./call.ts";

const SYMBOLS = {
  inotify_init1: { parameters: ["i32", UNCOMPILED], result: "i32" },
  inotify_add_watch: {
    parameters: ["i32", "buffer", "u32", UNCOMPILED],
    result: "i32",
  },
  inotify_rm_watch: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  read: { parameters: ["i32", "buffer", "usize", UNCOMPILED], result: "isize" },
} as const;

let watches: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;

function watchCalls(): NonNullable<typeof watches> {
  return watches ??= openSymbols(SYMBOLS);
}

/** inotify_init1(2). Returns a descriptor. */
export function createInotify(flags: number): number {
  return checked(
    "inotify_init1",
    () => watchCalls().inotify_init1(flags, PADDING),
  );
}

/** inotify_add_watch(2). Returns the watch's number. */
export function addWatch(fd: number, path: string, events: number): number {
  const symbols = watchCalls();
  return checked(
    "inotify_add_watch",
    () => symbols.inotify_add_watch(fd, cString(path), events, PADDING),
  );
}

/** inotify_rm_watch(2). */
export function removeWatch(fd: number, watch: number): void {
  checked(
    "inotify_rm_watch",
    () => watchCalls().inotify_rm_watch(fd, watch, PADDING),
  );
}

/** read(2) of a non-blocking descriptor; undefined if no data has arrived. */
export function readNow(fd: number, buffer: Bytes): number | undefined {
  const symbols = watchCalls();
  return unlessBusy(
    "read",
    () => Number(symbols.read(fd, buffer, BigInt(buffer.length), PADDING)),
  );
}
