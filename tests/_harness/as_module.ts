/**
 * Runs scripts in processes of their own.
 *
 * @module
 */

import { importFlags } from "../../scripts/import_flags.ts";

/**
 * Returns a URL by which `deno run` runs a script. Unlike `deno eval`, it
 * records coverage. Imports must be absolute.
 */
export function asModule(script: string): string {
  return `data:application/typescript,${encodeURIComponent(script)}`;
}

const ROOT = new URL("../../", import.meta.url);

/**
 * Returns the command that runs a script which imports the project, without
 * stdin. It downloads nothing: a proxy of the test may be in its environment.
 */
export async function moduleCommand(
  script: string,
  options: Pick<Deno.CommandOptions, "clearEnv" | "env" | "stdout"> = {},
): Promise<Deno.Command> {
  const flags = await importFlags();
  // Deno looks for it beside the main module, which a script has not.
  const config = `--config=${new URL("deno.json", ROOT).pathname}`;
  return new Deno.Command(Deno.execPath(), {
    ...options,
    args: ["run", "-A", "--no-check", ...flags, config, "--cached-only"]
      .concat(asModule(script)),
    cwd: ROOT,
    stdin: "null",
  });
}
