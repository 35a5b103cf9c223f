/**
 * Steps of the call stub: deno starts as if nothing had been.
 *
 * Source: memfd_create(2), pipe(7).
 *
 * @module
 */

import { CniError, ErrorCode, formatFailure } from "../../../cni/error.ts";
import { CURRENT_VERSION } from "../../../cni/version.ts";
import { COMMAND } from "../../../cni/call/variables.ts";
import { LOST, LOST_DETAILS } from "../../../daemon/protocol/call_format.ts";
import {
  REFUSED_FLAG,
  StdinName,
} from "../../../daemon/protocol/stdin_name.ts";
import { ADDRESS_PATH, Frame, Memory, slotOf } from "./frame.ts";
import type { Argument } from "./processor.ts";
import { Step, type Writer } from "./writer.ts";

/** The message if stdin cannot be put back. */
const CANNOT_PUT_BACK = `${
  format(
    new CniError(
      ErrorCode.IoFailure,
      "Cannot keep the configuration: memfd_create(2), pipe2(2) or write(2) failed",
    ),
  )
}\n`;

/** Stands for the socket's path, which has nothing to escape. */
const PATH = "PATH";
/** What is written, around the path, if deno cannot learn that an ADD was lost. */
const [BEFORE_PATH = "", BEHIND_PATH = ""] = format(
  new CniError(ErrorCode.TryAgainLater, LOST.join(PATH), {
    details: LOST_DETAILS,
  }),
).split(PATH);

function format(error: CniError): string {
  return formatFailure(error, CURRENT_VERSION).stdout;
}

/** The label to jump to if deno is to start; it lies outside of the stub. */
export const DENO_ENTRY = "entry of deno";

/** Source: linux/memfd.h, linux/fcntl.h. */
const MFD_NOEXEC_SEAL = 8, F_SETFL = 4, F_SETPIPE_SZ = 1031;
const STDIN = 0, STDOUT = 1;
const INT_BITS = 32;

/** Where to write what was read from stdin, and where deno reads it. */
const STREAM = { to: "d", from: "e" } as const;

/** Makes stdin a file in memory with what was read from it; a pipe if the kernel has no such files. */
export function putBack(w: Writer): void {
  const { p } = w;
  using r = w.step("put stdin back", { ...STREAM, at: "a", left: "b" });
  p.label(Step.putBack);
  createFile(w);
  p.jumpIfNegative("result", "no file in memory");
  p.move(r.to, "result");
  p.move(r.from, "result");
  p.jump("fill");
  p.label("no file in memory");
  createPipe(w, "cannot put back");

  p.label("fill");
  p.load(r.at, "frame", Frame.stdin);
  p.load(r.left, "frame", Frame.stdinLength);
  w.loop((next, end) => {
    p.jumpIf(r.left, "==", 0, end);
    p.systemCall("write", r.to, r.at, r.left);
    p.jumpIfNegative("result", "cannot put back");
    p.add(r.at, "result");
    p.subtract(r.left, "result");
    p.jump(next);
  });
  p.systemCall("lseek", r.from, 0, 0); // fails for a pipe, which needs none
  p.systemCall("dup3", r.from, STDIN, 0);
  p.jumpIfNegative("result", "cannot put back");
  p.systemCall("close", r.from);
  p.systemCall("close", r.to); // the same, of a file
  p.jump(Step.freeMemory);

  using _ = w.step("cannot put back", {});
  p.label("cannot put back");
  const text = { label: w.text(CANNOT_PUT_BACK) };
  p.systemCall("write", STDOUT, text, CANNOT_PUT_BACK.length);
  p.systemCall("exit_group", 1);
}

function createFile(w: Writer): void {
  const { p } = w;
  using r = w.step("create a file in memory", { name: "a" });
  const created = w.newLabel("created");
  const before = w.newLabel("kernel before 6.3");
  p.load(r.name, "frame", Frame.stdinName);
  p.systemCall("memfd_create", r.name, MFD_NOEXEC_SEAL);
  p.jumpIfNegative("result", before);
  p.jump(created);
  p.label(before);
  p.systemCall("memfd_create", r.name, 0);
  p.label(created);
}

/**
 * Creates a pipe that all of stdin fits into. It has no name. A flag tells deno of a
 * call that the daemon has refused; in other cases deno asks the daemon as if there
 * were no stub. An ADD that the daemon may have begun fails here; other commands can
 * be repeated.
 */
function createPipe(w: Writer, failed: string): void {
  const { p } = w;
  using r = w.step("create a pipe", { ...STREAM, size: "a" });
  failLost(w, "create pipe");
  p.label("create pipe");
  // Two numbers of 32 bits: the end to read from, and the one to write to.
  p.systemCall("pipe2", { frame: Frame.poll }, 0);
  p.jumpIfNegative("result", failed);
  p.load(r.to, "frame", Frame.poll);
  p.move(r.from, r.to);
  p.shiftRight(r.to, INT_BITS);
  p.shiftLeft(r.from, INT_BITS);
  p.shiftRight(r.from, INT_BITS);
  // Never 0, which some kernels refuse; the size is rounded up.
  p.load(r.size, "frame", Frame.stdinLength);
  p.addNumber(r.size, 1);
  p.systemCall("fcntl", r.to, F_SETPIPE_SZ, r.size);
  p.jumpIfNegative("result", failed);
  markRefused(w, r.from);
}

/** Sets the flag that stands for {@linkcode StdinName.refused}. */
function markRefused(w: Writer, pipe: Argument): void {
  const { p } = w;
  using r = w.step("mark a refused call", { name: "a", other: "b" });
  p.load(r.name, "frame", Frame.stdinName);
  p.labelAddress(r.other, w.text(StdinName.refused));
  p.jumpIf(r.name, "!=", r.other, "is marked");
  p.systemCall("fcntl", pipe, F_SETFL, REFUSED_FLAG);
  p.label("is marked");
}

/** Ends the process if the daemon may have begun an ADD; jumps if not. */
function failLost(w: Writer, otherwise: string): void {
  const { p } = w;
  using r = w.step("had the daemon the call", { name: "a", other: "b" });
  p.load(r.name, "frame", Frame.stdinName);
  for (const name of [StdinName.lost, StdinName.silent]) {
    p.labelAddress(r.other, w.text(name));
    p.jumpIf(r.name, "==", r.other, "daemon had the call");
  }
  p.jump(otherwise);
  p.label("daemon had the call");
  using call = w.step("was it an ADD", { command: "a" });
  p.load(call.command, "frame", slotOf(COMMAND));
  w.jumpIfText(call.command, "ADD", "ADD was lost");
  p.jump(otherwise);
  p.label("ADD was lost");
  using path = w.step("say that it is lost", { length: "a" });
  const write = (text: string): void =>
    p.systemCall("write", STDOUT, { label: w.text(text) }, text.length);
  write(BEFORE_PATH);
  p.load(path.length, "frame", Frame.addressLength);
  p.addNumber(path.length, -ADDRESS_PATH - 1); // without the NUL
  const address = { frame: Frame.address + ADDRESS_PATH };
  p.systemCall("write", STDOUT, address, path.length);
  write(BEHIND_PATH);
  p.systemCall("exit_group", 1);
}

/** Jumps to deno; the stack and the registers are as they were. */
export function startDeno(w: Writer): void {
  const { p } = w;
  using r = w.step("start deno", { memory: "a" });
  p.label(Step.freeMemory);
  p.load(r.memory, "frame", Frame.memory);
  p.systemCall("munmap", r.memory, Memory.end);
  p.label(Step.startDeno);
  p.leave(Frame.size, Frame.kept, DENO_ENTRY);
}
