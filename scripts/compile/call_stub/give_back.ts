/**
 * Steps of the call stub: deno starts as if nothing had been.
 *
 * Source: memfd_create(2).
 *
 * @module
 */

import { Frame, Memory } from "./frame.ts";
import { Step, type Writer } from "./writer.ts";

/** What is written if stdin cannot be put back. */
const CANNOT_PUT_BACK = `{
    "cniVersion": "1.1.0",
    "code": 5,
    "msg": "Cannot keep the configuration: memfd_create(2) or write(2) failed"
}
`;

/** The label to jump to if deno is to start; it lies outside of the stub. */
export const DENO_ENTRY = "entry of deno";

/** Source: linux/memfd.h. */
const MFD_NOEXEC_SEAL = 8;
const STDIN = 0, STDOUT = 1;

/** Makes stdin a file in memory with what was read from it. */
export function putBack(w: Writer): void {
  const { p } = w;
  p.label(Step.putBack);
  p.load("a", "frame", Frame.stdinName);
  p.systemCall("memfd_create", "a", MFD_NOEXEC_SEAL);
  const made = w.newLabel("made");
  const failed = w.newLabel("failed");
  const before = w.newLabel("kernel before 6.3");
  p.jumpIfNegative("result", before);
  p.jump(made);
  p.label(before);
  p.systemCall("memfd_create", "a", 0);
  p.jumpIfNegative("result", failed);
  p.label(made);
  p.store("result", "frame", Frame.socket);
  p.load("d", "frame", Frame.socket);
  w.memory("a", Memory.stdin, "b");
  p.load("b", "frame", Frame.stdinLength);
  const [next, end] = [w.newLabel("next"), w.newLabel("end")];
  p.label(next);
  p.jumpIf("b", "==", 0, end);
  p.systemCall("write", "d", "a", "b");
  p.jumpIfNegative("result", failed);
  p.add("a", "result");
  p.subtract("b", "result");
  p.jump(next);
  p.label(end);
  p.systemCall("lseek", "d", 0, 0);
  p.systemCall("dup3", "d", STDIN, 0);
  p.jumpIfNegative("result", failed);
  p.systemCall("close", "d");
  p.jump(Step.freeMemory);

  p.label(failed);
  const text = { label: w.text(CANNOT_PUT_BACK) };
  p.systemCall("write", STDOUT, text, CANNOT_PUT_BACK.length);
  p.systemCall("exit_group", 1);
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
