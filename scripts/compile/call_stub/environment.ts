/**
 * Steps of the call stub: what the process was called as, and its environment.
 *
 * Source: the stack of a new process: System V ABI, "Process Initialization"; execve(2).
 *
 * @module
 */

import { WORD_BYTES } from "../../../cni/call_format.ts";
import { Frame, slotOf, VARIABLES } from "./frame.ts";
import { codeOf, Step, type Writer } from "./writer.ts";

const FORBIDDEN: readonly (typeof VARIABLES[number])[] = [
  "CNI_NO_DAEMON",
  "CNI_TRACE",
];

/**
 * What each command needs, as `plugins/main.ts` has it. The checks follow one
 * another, and each command begins at its own.
 */
const NEEDS: readonly {
  readonly commands: readonly string[];
  readonly variables: readonly (typeof VARIABLES[number])[];
}[] = [
  { commands: ["ADD", "CHECK"], variables: ["CNI_NETNS"] },
  { commands: ["DEL"], variables: ["CNI_CONTAINERID", "CNI_IFNAME"] },
  { commands: ["GC", "STATUS"], variables: ["CNI_PATH"] },
];

/** a = argc, which must be 1, and then argv[0]; its last part is the program's name. */
export function readName(w: Writer): void {
  const { p } = w;
  p.load("a", "frame", Frame.size);
  p.jumpIf("a", "!=", 1, Step.startDeno);
  p.load("a", "frame", Frame.size + WORD_BYTES);
  p.store("a", "frame", Frame.name);
  p.store("a", "frame", Frame.baseName);
  p.move("b", "a");
  const [next, end] = [w.newLabel("next"), w.newLabel("end")];
  p.label(next);
  p.loadByte("c", "b");
  p.jumpIf("c", "==", 0, end);
  p.addNumber("b", 1);
  p.jumpIf("c", "!=", codeOf("/"), next);
  p.store("b", "frame", Frame.baseName);
  p.jump(next);
  p.label(end);
  p.subtract("b", "a");
  p.store("b", "frame", Frame.nameLength);
}

/** Finds the variables, the first of each name; and where the environment begins and ends. */
export function readEnvironment(w: Writer): void {
  const { p } = w;
  const names = VARIABLES.map((name) => `${name}=\0`).join("");
  p.number("a", 0);
  VARIABLES.forEach((name) => p.store("a", "frame", slotOf(name)));
  // Behind argc, argv[0] and the NULL of argv.
  p.frameAddress("b", Frame.size + 3 * WORD_BYTES);
  p.load("a", "b", 0);
  p.jumpIf("a", "==", 0, Step.startDeno);
  p.store("a", "frame", Frame.environment);

  p.label("next variable"); // b = &envp[i]
  p.load("a", "b", 0);
  p.jumpIf("a", "==", 0, "end of variables");
  p.store("a", "frame", Frame.environmentLength); // the last one, up to now
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

  // The kernel lays the texts down one behind the other.
  p.label("end of variables");
  p.load("a", "frame", Frame.environmentLength);
  w.findEnd("a");
  p.addNumber("a", 1);
  p.load("b", "frame", Frame.environment);
  p.jumpIf("a", "<", "b", Step.startDeno);
  p.subtract("a", "b");
  p.store("a", "frame", Frame.environmentLength);
}

/** Leaves calls to deno that lack a variable or are to run without a daemon. */
export function checkEnvironment(w: Writer): void {
  const { p } = w;
  for (const name of FORBIDDEN) {
    p.load("a", "frame", slotOf(name));
    p.jumpIf("a", "!=", 0, Step.startDeno);
  }
  p.load("a", "frame", slotOf("CNI_COMMAND"));
  p.jumpIf("a", "==", 0, Step.startDeno);
  NEEDS.forEach(({ commands }, index) => {
    for (const command of commands) w.jumpIfText("a", command, needs(index));
  });
  p.jump(Step.startDeno);
  NEEDS.forEach(({ variables }, index) => {
    p.label(needs(index));
    for (const name of variables) requireVariable(w, name);
  });
}

function needs(index: number): string {
  return `needs ${index}`;
}

/** Starts deno if a variable is not set or empty. */
function requireVariable({ p }: Writer, name: typeof VARIABLES[number]): void {
  p.load("a", "frame", slotOf(name));
  p.jumpIf("a", "==", 0, Step.startDeno);
  p.loadByte("b", "a");
  p.jumpIf("b", "==", 0, Step.startDeno);
}
