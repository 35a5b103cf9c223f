/**
 * Runs a command, and both shows and reads its output.
 *
 * @module
 */

/** The stdout of a command, and whether it exited with 0. */
export interface CommandResult {
  readonly output: string;
  readonly success: boolean;
}

/**
 * Runs a command, passes its stdout and stderr on as they come, and returns
 * its stdout. The command has no stdin.
 *
 * @throws {Deno.errors.NotFound} If the command does not exist
 */
export async function tee(
  command: string,
  options: Pick<Deno.CommandOptions, "args" | "cwd" | "env" | "signal">,
): Promise<CommandResult> {
  await using child = new Deno.Command(command, {
    ...options,
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const [shown, read] = child.stdout.tee();
  const [output] = await Promise.all([
    new Response(read).text(),
    shown.pipeTo(Deno.stdout.writable, { preventClose: true }),
  ]);
  const { success } = await child.status;
  return { output, success };
}
