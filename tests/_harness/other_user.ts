/**
 * A second user, for tests of whom a program believes.
 *
 * @module
 */

import { allOf, ignoreUnless, type Needs } from "../../testing/capabilities.ts";
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
