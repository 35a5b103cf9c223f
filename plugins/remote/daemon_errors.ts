/**
 * Failures of a daemon, and their codes.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";

/** Code of errors that the specification lacks. */
export const OWN_CODE = 100;

/** The request was not sent: no process listens. */
export class DaemonAway extends Error {
  /** Names the class in texts. */
  override readonly name = "DaemonAway";
}

/** The request was not sent: a process might listen, but accepts no connection. */
export class DaemonBusy extends Error {
  /** Names the class in texts. */
  override readonly name = "DaemonBusy";
}

/** The request was sent, and its outcome is unknown. */
export class AnswerLost extends Error {
  /** Names the class in texts. */
  override readonly name = "AnswerLost";
}

/** The daemon's response cannot be used. */
export class BadAnswer extends Error {
  /** Names the class in texts. */
  override readonly name = "BadAnswer";
}

/**
 * The command was not run: the daemon is unavailable, or does not support the
 * command.
 */
export class DaemonMissing extends CniError {}

/**
 * The daemon has run ADD, but its response cannot be used; the cause contains the
 * reason.
 */
export class UnusableResult extends Error {}

/** Converts a failure of {@linkcode exchange} to the error of a command. */
export function toDaemonError(
  error: unknown,
  { command, socket }: { readonly command: string; readonly socket: string },
): CniError {
  if (error instanceof CniError) return error;
  const isStatus = command === "STATUS";
  const passing = isStatus
    ? ErrorCode.PluginNotAvailable
    : ErrorCode.TryAgainLater;
  const why = error instanceof Error ? error.message : String(error);
  if (error instanceof DaemonAway) {
    const message = `The daemon at "${socket}" is unreachable: ${why}`;
    return new DaemonMissing(passing, message);
  }
  if (error instanceof DaemonBusy) {
    const message = `The daemon at "${socket}" accepts no connection: ${why}`;
    return new CniError(passing, message);
  }
  if (error instanceof AnswerLost) {
    return new CniError(
      passing,
      `The daemon at "${socket}" went away before it answered: ${why}`,
      {
        details: command === "ADD"
          ? "parts of the attachment may exist until DEL"
          : "",
      },
    );
  }
  return new CniError(
    isStatus ? ErrorCode.PluginNotAvailable : OWN_CODE,
    `Cannot use the answer of the daemon at "${socket}": ${why}`,
  );
}
