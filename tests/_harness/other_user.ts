/**
 * A second user, for tests of whom a program believes.
 *
 * @module
 */

import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { BIN } from "./executables.ts";

/** The user ID of a user without any rights. */
export const OTHER_UID = 65534;

/** Reports whether a program succeeds for the other user. */
function runsAsOther(program: string): boolean {
  try {
    return new Deno.Command(program, {
      uid: OTHER_UID,
      env: { CNI_COMMAND: "VERSION" },
      stdin: "null",
    }).outputSync().success;
  } catch {
    return false;
  }
}

/**
 * Whether processes can have another user: not as an ordinary one, nor with one
 * user mapped.
 */
export const canBeOtherUser: boolean = runsAsOther("true");

/** Skips tests that need another user where the machine has none. */
export const needsOtherUser: Needs = ignoreUnless(
  canBeOtherUser,
  "needs a second user",
);

/** Skips tests in which another user runs the executables, as in root's home directory. */
export const needsOtherCaller: Needs = allOf(
  needsOtherUser,
  ignoreUnless(
    !canBeOtherUser || runsAsOther(BIN ? `${BIN}/static` : "true"),
    "needs executables that other users may run",
  ),
);

/** Skips tests in which another user locks files. */
export const needsOtherLocker: Needs = allOf(
  needsOtherUser,
  ignoreUnless(hasCommand("flock"), "needs flock"),
);

/** A lock that the other user holds until it is disposed of. */
export class OtherUsersLock implements AsyncDisposable {
  readonly #holder: Deno.ChildProcess;

  private constructor(holder: Deno.ChildProcess) {
    this.#holder = holder;
  }

  /**
   * Locks a file.
   *
   * @param enter The command that enters the node of the file
   */
  static async take(
    path: string,
    enter: readonly string[] = [],
  ): Promise<OtherUsersLock> {
    const [program = "", ...args] = [
      ...enter,
      ...["setpriv", `--reuid=${OTHER_UID}`, "--clear-groups"],
      ...["flock", path, "sh", "-c", "echo locked; cat"],
    ];
    const holder = new Deno.Command(program, {
      args,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const [first] = await Array.fromAsync(firstOf(holder.stdout));
    if (first === undefined) throw new Error(`Cannot lock "${path}"`);
    return new OtherUsersLock(holder);
  }

  /** Releases the lock. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#holder.stdin.close();
    await this.#holder.status;
  }
}

/** Yields the first part of a stream, and closes it. */
async function* firstOf<T>(stream: ReadableStream<T>): AsyncGenerator<T> {
  for await (const part of stream) {
    yield part;
    return;
  }
}
