/**
 * The answer of a task to `--help`.
 *
 * @module
 */

/** Prints the usage and exits with 0 if the command line asks for help. */
export function answerHelp(
  usage: string,
  args: readonly string[] = Deno.args,
): void {
  const end = args.indexOf("--");
  const own = end < 0 ? args : args.slice(0, end);
  if (!own.includes("--help") && !own.includes("-h")) return;
  console.log(usage);
  Deno.exit(0);
}
