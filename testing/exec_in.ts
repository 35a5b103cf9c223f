/**
 * Running a program in a namespace with a given stdin, as a runtime does.
 *
 * @module
 */

import { inNetns, type NetNs } from "../ffi/netns.ts";

/** Options of a program. */
export interface ExecInput {
  /** Its path, and argv[0]. */
  readonly path: string;
  readonly args?: readonly string[];
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** How a program ended. */
export interface ExecOutput {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs a program to its end. It is started synchronously, for only so is it
 * sure to start in the namespace; a shell hands it its stdin from a file.
 */
export function execIn(
  netns: NetNs,
  { path, args = [], env, stdin }: ExecInput,
): ExecOutput {
  const file = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(file, stdin);
    const output = inNetns(
      netns,
      () =>
        new Deno.Command("sh", {
          args: ["-c", 'f=$1; shift; exec "$@" < "$f"', "sh", file, path]
            .concat(args),
          clearEnv: true,
          env,
        }).outputSync(),
    );
    const [stdout = "", stderr = ""] = [output.stdout, output.stderr]
      .map((bytes) => new TextDecoder().decode(bytes));
    return { code: output.code, stdout, stderr };
  } finally {
    Deno.removeSync(file);
  }
}
