/**
 * Finds where deno keeps what it downloads and compiles.
 *
 * @module
 */

/** Asks deno for its directory. */
export async function findDenoDirectory(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "--no-config"],
    stderr: "null",
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout)).denoDir;
}
