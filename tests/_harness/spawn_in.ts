/**
 * Running programs side by side, each in a namespace.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";
import type { ExecInput, ExecOutput } from "../../testing/exec_in.ts";

/** A program that is running. */
export interface Spawned {
  /** Kills it, as a crash would, if it is still running. */
  kill(): void;
  /** Resolves to the outcome. */
  readonly output: Promise<ExecOutput>;
}

/**
 * Starts a program in a namespace. It is started synchronously, on the thread
 * that is inside; nothing is waited for there.
 */
export function spawnIn(
  netns: NetNs,
  { path, args = [], env, stdin }: ExecInput,
): Spawned {
  const child = inNetns(netns, () =>
    new Deno.Command(path, {
      args: [...args],
      clearEnv: true,
      env,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn());
  return {
    kill(): void {
      try {
        child.kill("SIGKILL");
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    },
    output: outputOf(child, stdin),
  };
}

async function outputOf(
  child: Deno.ChildProcess,
  stdin: string,
): Promise<ExecOutput> {
  const [{ code, stdout, stderr }] = await Promise.all([
    child.output(),
    feed(child, stdin),
  ]);
  const decoder = new TextDecoder();
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}

/** One that was killed does not read. */
async function feed(child: Deno.ChildProcess, stdin: string): Promise<void> {
  const writer = child.stdin.getWriter();
  try {
    await writer.write(new TextEncoder().encode(stdin));
    await writer.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}
