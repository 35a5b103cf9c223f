/**
 * What the start-up code does, whatever the processor, and the texts it needs.
 *
 * The kernel hands a new process its stack like this, lowest address first:
 *
 *     argc | argv[0] … argv[argc-1] | NULL | envp[0] … | NULL | auxiliary vector
 *
 * The dynamic loader runs first and then jumps to the entry point, with that
 * stack untouched: to us. We
 *
 * 1. give up where there is not even an `argv[0]`;
 * 2. close up `envp`, leaving out the variables that would change how deno starts;
 * 3. call libc's `setenv` for those that have to have a certain value;
 * 4. go to `/` if the working directory was deleted, where deno would give up;
 * 5. move `argc` and `argv[0]` down, and put arguments in between;
 * 6. jump to where the executable used to start.
 *
 * Nothing is allocated that need be freed, and everything is as an ordinary
 * `deno` with these arguments would find it.
 *
 * @module
 */

import type { Assembler } from "./assembler.ts";

/** Functions of libc that the code calls, by the slots in which their addresses are. */
const CALLED_FUNCTIONS = ["setenv", "getcwd", "chdir"] as const;

/** The changes that the start-up code makes to its process. */
export interface StubPlan {
  /** Where the executable used to start. */
  readonly entry: number;
  /** Addresses of the slots of {@linkcode CALLED_FUNCTIONS}. */
  readonly slots: Readonly<Record<typeof CALLED_FUNCTIONS[number], number>>;
  /** How the variables begin that are left out: `NAME=`, or part of a name. */
  readonly droppedPrefixes: readonly string[];
  /** Variables to set. */
  readonly variables: Readonly<Record<string, string>>;
  /** Arguments to put behind `argv[0]`: an even number, because the stack has to stay aligned to 16 bytes. */
  readonly args: readonly string[];
}

/** Exit status where `argc` is 0, as of a shell that does not find the command. Kernels from 5.18 prevent it. */
export const NO_ARGUMENTS_STATUS = 127;

/** Names of labels, shared by the code and the data. */
export const Label = {
  entry: "entry",
  prefixes: "prefixes",
  root: "root",
  slot: (name: string): string => `slot of ${name}`,
  variableName: (index: number): string => `name of variable ${index}`,
  variableValue: (index: number): string => `value of variable ${index}`,
  argument: (index: number): string => `argument ${index}`,
} as const;

/**
 * Defines the addresses outside of the segment.
 *
 * @throws {Error} If the number of arguments is odd
 */
export function defineTargets(assembler: Assembler, plan: StubPlan): void {
  if (plan.args.length % 2 !== 0) {
    throw new Error(
      `Cannot insert ${plan.args.length} arguments: ` +
        "expected an even number, or the stack is not aligned",
    );
  }
  assembler.label(Label.entry, plan.entry);
  for (const name of CALLED_FUNCTIONS) {
    assembler.label(Label.slot(name), plan.slots[name]);
  }
}

/** Appends the texts, to follow the code. */
export function appendTexts(assembler: Assembler, plan: StubPlan): void {
  assembler.label(Label.prefixes);
  assembler.emit(encodePrefixes(plan.droppedPrefixes));
  Object.entries(plan.variables).forEach(([name, value], index) => {
    assembler.text(Label.variableName(index), name);
    assembler.text(Label.variableValue(index), value);
  });
  plan.args.forEach((arg, index) => assembler.text(Label.argument(index), arg));
  assembler.text(Label.root, "/");
}

/** Encodes each prefix as its length in one byte and its characters; a length of 0 ends the list. */
function encodePrefixes(prefixes: readonly string[]): number[] {
  return [
    ...prefixes.flatMap((prefix) => [
      prefix.length,
      ...new TextEncoder().encode(prefix),
    ]),
    0,
  ];
}
