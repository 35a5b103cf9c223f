/**
 * Steps of the call stub: what the process was called as, and its environment.
 *
 * Source: the stack of a new process: System V ABI, "Process Initialization"; execve(2).
 *
 * @module
 */

import { WORD_BYTES } from "../../../daemon/protocol/call_format.ts";
import {
  NEEDED_VARIABLES,
  NO_DAEMON,
} from "../../../daemon/protocol/daemon_socket.ts";
import { Frame, slotOf, VARIABLES } from "./frame.ts";
import { codeOf, Step, type Writer } from "./writer.ts";

/** a = argc, which must be 1, and then argv[0]; its last part is the program's name. */
export function readName(w: Writer): void {
  const { p } = w;
  p.load("a", "frame", Frame.size);
  p.jumpIf("a", "!=", 1, Step.startDeno);
  p.load("a", "frame", Frame.size + WORD_BYTES);
  p.store("a", "frame", Frame.name);
  p.store("a", "frame", Frame.baseName);
  const [next, end] = [w.newLabel("next"), w.newLabel("end")];
  p.label(next);
  p.loadByte("c", "a");
  p.jumpIf("c", "==", 0, end);
  p.addNumber("a", 1);
  p.jumpIf("c", "!=", codeOf("/"), next);
  p.store("a", "frame", Frame.baseName);
  p.jump(next);
  p.label(end);
}

/** Finds the variables, the first of each name. */
export function readEnvironment(w: Writer): void {
  const { p } = w;
  const names = VARIABLES.map((name) => `${name}=\0`).join("");
  p.number("a", 0);
  VARIABLES.forEach((name) => p.store("a", "frame", slotOf(name)));
  // Behind argc, argv[0] and the NULL of argv.
  p.frameAddress("b", Frame.size + 3 * WORD_BYTES);
  p.label("next variable"); // b = &envp[i]
  p.load("a", "b", 0);
  p.jumpIf("a", "==", 0, "end of variables");
  p.labelAddress("c", w.text(names));
  p.frameAddress("d", Frame.variables);

  p.label("next name"); // c = the name, d = where its value goes
  p.loadByte("e", "c");
  p.jumpIf("e", "==", 0, "variable done"); // the list ends
  p.move("f", "a");
  p.label("next character");
  p.loadByte("e", "c");
  p.addNumber("c", 1);
  p.jumpIf("e", "==", 0, "name found");
  p.loadByte("result", "f");
  p.addNumber("f", 1);
  p.jumpIf("e", "==", "result", "next character");
  p.label("rest of name");
  p.loadByte("e", "c");
  p.addNumber("c", 1);
  p.jumpIf("e", "!=", 0, "rest of name");
  p.addNumber("d", WORD_BYTES);
  p.jump("next name");

  p.label("name found"); // f = the value
  p.load("e", "d", 0);
  p.jumpIf("e", "!=", 0, "variable done"); // the first one counts
  p.store("f", "d", 0);
  p.label("variable done");
  p.addNumber("b", WORD_BYTES);
  p.jump("next variable");
  p.label("end of variables");
}

/** Leaves calls to deno that lack a variable or are to run without a daemon. */
export function checkEnvironment(w: Writer): void {
  const { p } = w;
  const value = "a", character = "b";
  p.load(value, "frame", slotOf("CNI_TRACE"));
  p.jumpIf(value, "!=", 0, Step.startDeno);
  const daemonAllowed = w.newLabel("daemon allowed");
  p.load(value, "frame", slotOf(NO_DAEMON));
  p.jumpIf(value, "==", 0, daemonAllowed);
  p.loadByte(character, value);
  p.jumpIf(character, "!=", 0, Step.startDeno);
  p.label(daemonAllowed);
  p.load(value, "frame", slotOf("CNI_COMMAND"));
  p.jumpIf(value, "==", 0, Step.startDeno);
  const commands = Object.entries(NEEDED_VARIABLES);
  for (const [command] of commands) w.jumpIfText(value, command, command);
  p.jump(Step.startDeno);
  for (const [command, variables] of commands) {
    p.label(command);
    for (const name of variables) requireVariable(w, name);
    p.jump("environment checked");
  }
  p.label("environment checked");
}

/** Starts deno if a variable is not set or empty. */
function requireVariable({ p }: Writer, name: typeof VARIABLES[number]): void {
  p.load("a", "frame", slotOf(name));
  p.jumpIf("a", "==", 0, Step.startDeno);
  p.loadByte("b", "a");
  p.jumpIf("b", "==", 0, Step.startDeno);
}
