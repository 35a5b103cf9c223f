/**
 * The environment variables of a call. Calls check them, the caller of the node daemon
 * reads them first, and the launcher is generated from this table.
 *
 * @module
 */

/** The command. */
export const COMMAND = "CNI_COMMAND";

/**
 * The command that restores what CHECK finds missing, with the input of CHECK. It is
 * this project's extension, and only plugins that declare it are called with it.
 */
export const REPAIR = "REPAIR";

/** Set to 1 if REPAIR also changes the interface in the container. */
export const REPAIR_SANDBOX = "CNI_REPAIR_SANDBOX";

/** Set if stdin has a question of a tool, under the key {@linkcode QUESTION_KEY}. */
export const QUESTION_VARIABLE = "CNI_TOOL_ASKS";

/**
 * Value of {@linkcode QUESTION_VARIABLE}: which commands does the plugin have besides
 * those of the specification? The answer to VERSION lists them in `commands`.
 */
export const ASK_COMMANDS = "commands";

/** The key of the question on stdin, and of the answer on stdout. */
export const QUESTION_KEY = "tools";

/** The file to which a process appends its trace. */
export const TRACE = "CNI_TRACE";

/**
 * Reports whether a variable names a destination for OpenTelemetry spans.
 *
 * @param read Returns the value of a variable
 */
export function mayHaveSpans(
  read: (name: string) => string | undefined,
): boolean {
  return Boolean(
    read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ||
      read("OTEL_EXPORTER_OTLP_ENDPOINT"),
  );
}

/**
 * Which commands need a variable, in the order in which they are checked and listed
 * in errors.
 *
 * Source: containernetworking/cni pkg/skel/skel.go `getCmdArgsFromEnv`.
 */
export const NEEDED_VARIABLES = [
  { name: "CNI_CONTAINERID", by: ["ADD", "CHECK", "DEL"] },
  { name: "CNI_NETNS", by: ["ADD", "CHECK"] },
  { name: "CNI_IFNAME", by: ["ADD", "CHECK", "DEL"] },
  { name: "CNI_PATH", by: ["ADD", "CHECK", "DEL", "GC", "STATUS"] },
] as const;

/** A variable that commands need. */
export type NeededVariable = typeof NEEDED_VARIABLES[number]["name"];

/** Lists the variables that a command needs; empty for an unknown command. */
export function listNeeded(command: string | undefined): NeededVariable[] {
  return NEEDED_VARIABLES
    .filter(({ by }) => by.some((one) => one === command))
    .map(({ name }) => name);
}
