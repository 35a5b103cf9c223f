/**
 * Steps of the call stub: deno starts as if nothing had been.
 *
 * Source: memfd_create(2), pipe(7).
 *
 * @module
 */

import { StdinName } from "../../../daemon/protocol/stdin_name.ts";
import { ADDRESS_PATH, Frame, Memory, slotOf } from "./frame.ts";
import { Step, type Writer } from "./writer.ts";

/** What is written if stdin cannot be put back. */
const CANNOT_PUT_BACK = `{
    "cniVersion": "1.1.0",
    "code": 5,
    "msg": "Cannot keep the configuration: memfd_create(2), pipe2(2) or write(2) failed"
}
`;

/** What is written, around the socket's path, if deno cannot learn that an ADD was lost. */
const LOST = [
  `{
    "cniVersion": "1.1.0",
    "code": 11,
    "msg": "The node daemon at \\"`,
  `\\" went away before it answered",
    "details": "parts of the attachment may exist until DEL"
}`,
] as const;

/** The label to jump to if deno is to start; it lies outside of the stub. */
export const DENO_ENTRY = "entry of deno";

/** Source: linux/memfd.h, linux/fcntl.h. */
const MFD_NOEXEC_SEAL = 8, F_SETPIPE_SZ = 1031;
const STDIN = 0, STDOUT = 1;
const INT_BITS = 32;

/** Where to write what was read from stdin, and where deno reads it. */
const TO = "d", FROM = "e";

/** Makes stdin a file in memory with what was read from it; a pipe if there can be no such file. */
export function putBack(w: Writer): void {
  const { p } = w;
  p.label(Step.putBack);
  createFile(w);
  p.jumpIfNegative("result", "no file in memory");
  p.move(TO, "result");
  p.move(FROM, "result");
  p.jump("fill");
  p.label("no file in memory");
  createPipe(w, "cannot put back");

  p.label("fill");
  p.load("a", "frame", Frame.stdin);
  p.load("b", "frame", Frame.stdinLength);
  w.loop((next, end) => {
    p.jumpIf("b", "==", 0, end);
    p.systemCall("write", TO, "a", "b");
    p.jumpIfNegative("result", "cannot put back");
    p.add("a", "result");
    p.subtract("b", "result");
    p.jump(next);
  });
  p.systemCall("lseek", FROM, 0, 0); // fails for a pipe, which needs none
  p.systemCall("dup3", FROM, STDIN, 0);
  p.jumpIfNegative("result", "cannot put back");
  p.systemCall("close", FROM);
  p.systemCall("close", TO); // the same, of a file
  p.jump(Step.freeMemory);

  p.label("cannot put back");
  const text = { label: w.text(CANNOT_PUT_BACK) };
  p.systemCall("write", STDOUT, text, CANNOT_PUT_BACK.length);
  p.systemCall("exit_group", 1);
}

function createFile(w: Writer): void {
  const { p } = w;
  const created = w.newLabel("created");
  const before = w.newLabel("kernel before 6.3");
  p.load("a", "frame", Frame.stdinName);
  p.systemCall("memfd_create", "a", MFD_NOEXEC_SEAL);
  p.jumpIfNegative("result", before);
  p.jump(created);
  p.label(before);
  p.systemCall("memfd_create", "a", 0);
  p.label(created);
}

/**
 * Creates a pipe that all of stdin fits into. It has no name, so deno asks the
 * daemon as if there were no stub. An ADD that the daemon may have begun fails
 * here; other commands can be repeated.
 */
function createPipe(w: Writer, failed: string): void {
  const { p } = w;
  p.load("a", "frame", Frame.stdinName);
  for (const name of [StdinName.lost, StdinName.silent]) {
    p.labelAddress("b", w.text(name));
    p.jumpIf("a", "==", "b", "daemon had the call");
  }
  p.jump("create pipe");
  p.label("daemon had the call");
  p.load("a", "frame", slotOf("CNI_COMMAND"));
  w.jumpIfText("a", "ADD", "ADD was lost");

  p.label("create pipe");
  // Two numbers of 32 bits: the end to read from, and the one to write to.
  p.systemCall("pipe2", { frame: Frame.poll }, 0);
  p.jumpIfNegative("result", failed);
  p.load(TO, "frame", Frame.poll);
  p.move(FROM, TO);
  p.shiftRight(TO, INT_BITS);
  p.shiftLeft(FROM, INT_BITS);
  p.shiftRight(FROM, INT_BITS);
  // Never 0, which some kernels refuse; the size is rounded up.
  p.load("a", "frame", Frame.stdinLength);
  p.addNumber("a", 1);
  p.systemCall("fcntl", TO, F_SETPIPE_SZ, "a");
  p.jumpIfNegative("result", failed);
  p.jump("pipe created");

  p.label("ADD was lost");
  const [begin, end] = LOST;
  p.systemCall("write", STDOUT, { label: w.text(begin) }, begin.length);
  p.load("a", "frame", Frame.addressLength);
  p.addNumber("a", -ADDRESS_PATH - 1); // without the NUL
  const path = { frame: Frame.address + ADDRESS_PATH };
  p.systemCall("write", STDOUT, path, "a");
  p.systemCall("write", STDOUT, { label: w.text(end) }, end.length);
  p.systemCall("exit_group", 1);
  p.label("pipe created");
}

/** Jumps to deno; the stack and the registers are as they were. */
export function startDeno(w: Writer): void {
  const { p } = w;
  p.label(Step.freeMemory);
  p.load("a", "frame", Frame.memory);
  p.systemCall("munmap", "a", Memory.end);
  p.label(Step.startDeno);
  p.leave(Frame.size, Frame.kept, DENO_ENTRY);
}
