/**
 * Steps of the call stub: what the process was called as, and its environment.
 *
 * Source: the stack of a new process: System V ABI, "Process Initialization"; execve(2).
 *
 * @module
 */

import { WORD_BYTES } from "../../../daemon/protocol/call_format.ts";
import {
  COMMAND,
  listNeeded,
  NEEDED_VARIABLES,
  TRACE,
} from "../../../cni/call/variables.ts";
import { NO_DAEMON } from "../../../daemon/protocol/daemon_socket.ts";
import { Frame, slotOf, VARIABLES } from "./frame.ts";
import type { Kept } from "./processor.ts";
import { codeOf, Step, type Writer } from "./writer.ts";

/** Reads argc, which must be 1, and argv[0]; its last part is the program's name. */
export function readName(w: Writer): void {
  const { p } = w;
  using count = w.step("read argc", { argc: "a" });
  p.load(count.argc, "frame", Frame.size);
  p.jumpIf(count.argc, "!=", 1, Step.startDeno);
  using r = w.step("read argv[0]", { at: "a", character: "c" });
  p.load(r.at, "frame", Frame.size + WORD_BYTES);
  p.store(r.at, "frame", Frame.name);
  p.store(r.at, "frame", Frame.baseName);
  w.loop((next, end) => {
    p.loadByte(r.character, r.at);
    p.jumpIf(r.character, "==", 0, end);
    p.addNumber(r.at, 1);
    p.jumpIf(r.character, "!=", codeOf("/"), next);
    p.store(r.at, "frame", Frame.baseName);
    p.jump(next);
  });
}

/** Goes over the environment; the body may jump to the next variable. */
export function forEachVariable(
  w: Writer,
  r: { readonly envp: Kept; readonly variable: Kept },
  body: (next: string) => void,
): void {
  const { p } = w;
  // Behind argc, argv[0] and the NULL of argv.
  p.frameAddress(r.envp, Frame.size + 3 * WORD_BYTES);
  w.loop((next, end) => {
    p.load(r.variable, r.envp, 0);
    p.addNumber(r.envp, WORD_BYTES);
    p.jumpIf(r.variable, "==", 0, end);
    body(next);
    p.jump(next);
  });
}

/**
 * Finds which of a list of names a text begins with: jumps to `none`, or goes on
 * with `rest` behind the name. Each name has a NUL at its end.
 *
 * @param onOther What to do for each name that it is not
 */
export function findName(
  w: Writer,
  r: Readonly<Record<"text" | "names" | "character" | "rest", Kept>>,
  none: string,
  onOther?: () => void,
): void {
  const { p } = w;
  const found = w.newLabel("name found");
  w.loop((nextName) => {
    p.loadByte(r.character, r.names);
    p.jumpIf(r.character, "==", 0, none); // the list ends
    p.move(r.rest, r.text);
    w.loop((next) => {
      p.loadByte(r.character, r.names);
      p.addNumber(r.names, 1);
      p.jumpIf(r.character, "==", 0, found);
      p.loadByte("result", r.rest);
      p.addNumber(r.rest, 1);
      p.jumpIf(r.character, "==", "result", next);
    });
    w.loop((restOfName) => {
      p.loadByte(r.character, r.names);
      p.addNumber(r.names, 1);
      p.jumpIf(r.character, "!=", 0, restOfName);
    });
    onOther?.();
    p.jump(nextName);
  });
  p.label(found);
}

/** Finds the variables, the first of each name. */
export function readEnvironment(w: Writer): void {
  const { p } = w;
  using r = w.step("read the environment", {
    variable: "a",
    envp: "b",
    names: "c",
    slot: "d",
    character: "e",
    rest: "f",
  });
  p.number(r.variable, 0);
  VARIABLES.forEach((name) => p.store(r.variable, "frame", slotOf(name)));
  const names = VARIABLES.map((name) => `${name}=\0`).join("");
  forEachVariable(w, r, (next) => {
    p.labelAddress(r.names, w.text(names));
    p.frameAddress(r.slot, Frame.variables);
    findName(
      w,
      { ...r, text: r.variable },
      next,
      () => p.addNumber(r.slot, WORD_BYTES),
    );
    using found = w.step("keep the first of a name", { value: "e" });
    p.load(found.value, r.slot, 0);
    p.jumpIf(found.value, "!=", 0, next);
    p.store(r.rest, r.slot, 0);
  });
}

/** Leaves calls to deno that lack a variable or are to run without a daemon. */
export function checkEnvironment(w: Writer): void {
  const { p } = w;
  using r = w.step("check the environment", { value: "a", character: "b" });
  p.load(r.value, "frame", slotOf(TRACE));
  p.jumpIf(r.value, "!=", 0, Step.startDeno);
  const daemonAllowed = w.newLabel("daemon allowed");
  p.load(r.value, "frame", slotOf(NO_DAEMON));
  p.jumpIf(r.value, "==", 0, daemonAllowed);
  p.loadByte(r.character, r.value);
  p.jumpIf(r.character, "!=", 0, Step.startDeno);
  p.label(daemonAllowed);
  p.load(r.value, "frame", slotOf(COMMAND));
  p.jumpIf(r.value, "==", 0, Step.startDeno);
  const commands = new Set(NEEDED_VARIABLES.flatMap(({ by }) => by));
  for (const command of commands) w.jumpIfText(r.value, command, command);
  p.jump(Step.startDeno);
  for (const command of commands) {
    p.label(command);
    for (const name of listNeeded(command)) {
      p.load(r.value, "frame", slotOf(name));
      p.jumpIf(r.value, "==", 0, Step.startDeno);
      p.loadByte(r.character, r.value);
      p.jumpIf(r.character, "==", 0, Step.startDeno);
    }
    p.jump("environment checked");
  }
  p.label("environment checked");
}
