/**
 * Programs that a release needs: `tar`, `gzip`, `zstd`, `dpkg-deb`, `git`.
 *
 * @module
 */

/**
 * Runs a program and returns its stdout.
 *
 * @throws {Error} If it is not installed or fails; the message has its stderr
 */
export async function run(
  program: string,
  args: readonly string[],
  options: Pick<Deno.CommandOptions, "cwd" | "env"> = {},
): Promise<string> {
  const command = new Deno.Command(program, {
    args: [...args],
    ...options,
    stdin: "null",
  });
  const { success, stdout, stderr } = await command.output()
    .catch((cause) => {
      throw new Error(`Cannot run "${program}": is it installed?`, { cause });
    });
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(
    `Cannot run "${program} ${args.join(" ")}": ${
      decoder.decode(stderr).trim()
    }`,
  );
}

/**
 * Waits until all have ended, even if one fails: none goes on in a directory that
 * is then removed.
 *
 * @throws What the first of them threw, by their order
 */
export async function allEnded<T>(
  promises: readonly Promise<T>[],
): Promise<T[]> {
  const outcomes = await Promise.allSettled(promises);
  return outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
}
