/**
 * Prints errors of the tool.
 *
 * @module
 */

import { CniError, ownMessage, toCniError } from "../error.ts";
import { isErrno } from "../../ffi/errno.ts";

/**
 * Formats an error for people: the action, then the plugin's error as `msg;
 * details`. Several failures take one line each.
 *
 * @param above The text in front of it
 *
 * Source: containernetworking/cni pkg/types/types.go `Error.Error`.
 */
export function formatFailureText(error: unknown, above = ""): string {
  if (error instanceof CniError) return error.toString();
  if (error instanceof AggregateError) {
    return error.errors.map((one) => formatFailureText(one)).join("\n");
  }
  if (!(error instanceof Error)) return String(error);
  const message = ownMessage(error, above) || error.name;
  return error.cause === undefined
    ? message
    : `${message}: ${formatFailureText(error.cause, message)}`;
}

/** Reports whether the kernel denied permission. */
export function isDenied(error: unknown): boolean {
  if (error instanceof AggregateError && error.errors.some(isDenied)) {
    return true;
  }
  return error instanceof Deno.errors.PermissionDenied ||
    // A plugin's error contains only text.
    error instanceof CniError &&
      /\bE(PERM|ACCES)\b|\bPermission denied\b/.test(`${error}`) ||
    isErrno(error, "EPERM", "EACCES") ||
    error instanceof Error && error.cause !== undefined &&
      isDenied(error.cause);
}

/** Returns a hint if the kernel denied permission; "" for other errors and for root. */
export function hintAtRoot(error: unknown): string {
  return isDenied(error) && Deno.uid() !== 0 ? "; run it as root" : "";
}

/** The document for a failure with `--json`. */
export interface FailureDocument {
  /** A code of the CNI specification; 999 if unknown. */
  readonly code: number;
  readonly msg: string;
  readonly details?: string;
}

/** Converts any thrown value to a {@linkcode FailureDocument}. */
export function toFailureDocument(error: unknown): FailureDocument {
  const { cniVersion: _, ...document } = toCniError(error).toObject("");
  return document;
}

/** A failure with its own exit code. */
export class ExitError extends Error {
  /** The exit code. */
  readonly exitCode: number;

  /** Creates the error. */
  constructor(message: string, exitCode: number, options: ErrorOptions = {}) {
    super(message, options);
    this.exitCode = exitCode;
  }
}
