/**
 * Files that not even root can remove: the immutable attribute of chattr(1).
 *
 * @module
 */

import { ignoreUnless, type Needs } from "../../testing/capabilities.ts";

/** Skips what needs such files among the temporary ones. */
export const needsImmutableFiles: Needs = ignoreUnless(
  canBeImmutable(),
  "needs root, and chattr +i on the file system of temporary files",
);

function canBeImmutable(): boolean {
  const path = Deno.makeTempFileSync({ prefix: "cni-test-" });
  const works = chattr("+i", path);
  if (works) chattr("-i", path);
  Deno.removeSync(path);
  return works;
}

/** Keeps a file from being removed until it is disposed of. */
export function keepFile(path: string): Disposable {
  if (!chattr("+i", path)) throw new Error(`Cannot keep "${path}"`);
  const stack = new DisposableStack();
  stack.defer(() => void chattr("-i", path));
  return stack;
}

function chattr(change: string, path: string): boolean {
  try {
    const command = new Deno.Command("chattr", {
      args: [change, path],
      stderr: "null",
    });
    return command.outputSync().success;
  } catch {
    return false; // The program is missing.
  }
}
