/**
 * A second user, for tests of whom a program believes.
 *
 * @module
 */

import { ignoreUnless, type Needs } from "../../testing/capabilities.ts";
import { BIN } from "./executables.ts";

/** The user ID of a user without any rights. */
export const OTHER_UID = 65534;

/**
 * Whether processes can have another user: not as an ordinary one, nor with one
 * user mapped, nor where others cannot read the executables.
 */
export const canBeOtherUser: boolean = ((): boolean => {
  try {
    return new Deno.Command(BIN ? `${BIN}/static` : "true", {
      uid: OTHER_UID,
      env: { CNI_COMMAND: "VERSION" },
      stdin: "null",
    }).outputSync().success;
  } catch {
    return false;
  }
})();

/** Skips tests that need another user where there is none. */
export const needsOtherUser: Needs = ignoreUnless(
  canBeOtherUser,
  "needs a second user",
);
