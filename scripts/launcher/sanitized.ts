/**
 * The programs of `launcher/` as ordinary programs, whose memory and arithmetic
 * AddressSanitizer and UndefinedBehaviorSanitizer watch.
 *
 * @module
 */

import { buildIdentity } from "../../base/process/build_identity.ts";
import { ROOT, run } from "../project.ts";
import { COMPILER } from "./objects.ts";

const FLAGS: readonly string[] = [
  ...["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"],
  ...["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
];

/** A program, in a directory of its own. */
export class SanitizedProgram implements AsyncDisposable {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Where it is. */
  get path(): string {
    return `${this.#directory}/program`;
  }

  /**
   * Compiles a program of `launcher/testing`.
   *
   * @throws {Error} If the compiler fails; the message has what it printed
   */
  static async compile(
    name: "sender" | "fuzz",
    flags: readonly string[] = [],
  ): Promise<SanitizedProgram> {
    const directory = await Deno.makeTempDir({ prefix: "launcher_" });
    const program = new SanitizedProgram(directory);
    await using stack = new AsyncDisposableStack();
    stack.use(program);
    await run(COMPILER, [
      ...[...FLAGS, ...flags, "-DHOSTED", `-DBUILD="${buildIdentity}"`],
      ...[`${ROOT}launcher/testing/${name}.c`, "-o", program.path],
    ]);
    stack.move();
    return program;
  }

  /**
   * Runs it to its end.
   *
   * @throws {Error} If a sanitizer ends it; the message has the report
   */
  async output(
    { stdin }: { readonly stdin: Uint8Array<ArrayBuffer> },
  ): Promise<{ readonly stdout: Uint8Array<ArrayBuffer> }> {
    const child = new Deno.Command(this.path, {
      ...{ stdin: "piped", stdout: "piped", stderr: "piped" },
    }).spawn();
    const input = new Response(stdin).body?.pipeTo(child.stdin)
      .catch(() => {});
    const [output] = await Promise.all([child.output(), input]);
    if (output.success) return output;
    throw new Error(new TextDecoder().decode(output.stderr));
  }

  /** Removes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.#directory, { recursive: true });
  }
}

/**
 * Runs `launcher/testing/fuzz.c` under libFuzzer.
 *
 * @throws {Error} If a run fails; the message has the report, and how to repeat it
 */
export async function fuzzLauncher(
  { runs, seed }: { readonly runs: number; readonly seed: number },
): Promise<void> {
  const flags = ["-fsanitize=fuzzer"];
  await using program = await SanitizedProgram.compile("fuzz", flags);
  await run(program.path, [
    ...[`-runs=${runs}`, `-seed=${seed % 2 ** 32}`, "-max_len=4096"],
    ...[`-dict=${ROOT}launcher/testing/fuzz.dict`, "-artifact_prefix=/tmp/"],
  ]);
}
