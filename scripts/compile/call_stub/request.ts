/**
 * Steps of the call stub: the request to the daemon, up to the configuration.
 *
 * @module
 */

import {
  END,
  HEADER_BYTES,
  lengthAt,
  MAGIC,
  type PartName,
  type PartSource,
  REQUEST_PARTS,
  SENT_VARIABLES,
} from "../../../daemon/protocol/call_format.ts";
import { findName, forEachVariable } from "./environment.ts";
import { Frame, MAX_PREFIX } from "./frame.ts";
import type { Kept } from "./processor.ts";
import { codeOf, Step, type Writer } from "./writer.ts";

/** Longest text of an environment. Source: linux/binfmts.h `MAX_ARG_STRLEN`. */
const MAX_VARIABLE = 128 * 1024;

/** Copies what a source has to where a register points, and moves it; changes the others. */
type Copy = (w: Writer, end: Kept) => void;

/** How a part is written by its source. */
function copiesOf(build: string): Record<PartSource, Copy> {
  return {
    identity(w, end): void {
      using r = w.step("copy the identity", { from: "a", byte: "c" });
      w.p.labelAddress(r.from, w.text(build));
      w.copyText(r.from, end, r.byte);
    },
    argv0(w, end): void {
      using r = w.step("copy argv[0]", { from: "a", byte: "c" });
      w.p.load(r.from, "frame", Frame.name);
      w.copyText(r.from, end, r.byte);
    },
    environment: copyEnvironment,
    // It is read to where it belongs.
    stdin: (w, end): void => w.p.store(end, "frame", Frame.stdin),
  };
}

/** Writes the header and the parts before stdin to the mapping, and finds where stdin begins. */
export function beginRequest(w: Writer, build: string): void {
  const { p } = w;
  using r = w.step("begin the request", { magic: "a", request: "b", end: "d" });
  p.load(r.request, "frame", Frame.memory);
  p.labelAddress(r.magic, w.text(MAGIC));
  p.load(r.magic, r.magic, 0);
  p.store(r.magic, r.request, 0);
  p.move(r.end, r.request);
  p.addNumber(r.end, HEADER_BYTES);
  const copies = copiesOf(build);
  for (const { name, from } of REQUEST_PARTS) {
    if (from !== "stdin") writePart(w, name, (end) => copies[from](w, end));
  }
  copies.stdin(w, r.end);
}

/** Writes a part, and its length to the header. */
function writePart(
  w: Writer,
  name: PartName,
  copy: (end: Kept) => void,
): void {
  const { p } = w;
  using r = w.step(`part "${name}"`, { end: "d" });
  using done = w.step("length", { length: "a", request: "b" });
  p.load(done.request, "frame", Frame.memory);
  p.store(r.end, done.request, lengthAt(name)); // where it begins, for now
  copy(r.end);
  p.load(done.request, "frame", Frame.memory);
  p.load(done.length, done.request, lengthAt(name));
  p.subtract(r.end, done.length);
  p.store(r.end, done.request, lengthAt(name));
  p.add(r.end, done.length);
}

/**
 * Copies the variables that are sent. What is too long for the mapping is left to
 * deno.
 */
function copyEnvironment(w: Writer, end: Kept): void {
  const { p } = w;
  using r = w.step("copy the environment", {
    envp: "a",
    variable: "b",
    names: "c",
    character: "e",
    rest: "f",
  });
  // A name ends in what must follow: "=", or anything.
  const list = SENT_VARIABLES.map((name) =>
    name.endsWith("*") ? name.slice(0, -1) : `${name}=`
  );
  forEachVariable(w, r, (next) => {
    p.labelAddress(r.names, w.text(list.map((name) => `${name}\0`).join("")));
    findName(w, { ...r, text: r.variable }, next);
    using copied = w.step("copy a variable", { limit: "f", byte: "e" });
    w.memory(copied.limit, MAX_PREFIX - 2 * MAX_VARIABLE, copied.byte);
    p.jumpIf(end, ">=", copied.limit, Step.freeMemory);
    w.copyText(r.variable, end, copied.byte);
    p.storeByte(copied.byte, end); // the NUL
    p.addNumber(end, 1);
  });
}

/** Ends the request behind stdin; returns the registers with where it is and its length. */
export function endRequest(
  w: Writer,
): { readonly request: "a"; readonly length: "b" } {
  const { p } = w;
  using r = w.step("end the request", { request: "a", length: "b", end: "c" });
  p.load(r.request, "frame", Frame.memory);
  p.load(r.end, "frame", Frame.stdin);
  p.load(r.length, "frame", Frame.stdinLength);
  p.store(r.length, r.request, lengthAt("stdin"));
  p.add(r.end, r.length);
  p.number(r.length, codeOf(END));
  p.storeByte(r.length, r.end);
  p.addNumber(r.end, END.length);
  p.move(r.length, r.end);
  p.subtract(r.length, r.request);
  return r;
}
