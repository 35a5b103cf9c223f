/**
 * Errors as the tool shows them.
 *
 * @module
 */

import { CniError, toCniError } from "../cni/error.ts";
import { isErrno } from "../ffi/errno.ts";

/**
 * Renders an error for people: what was tried, and what the plugin said, as
 * `msg; details`; several failures in a line each.
 *
 * Source: containernetworking/cni pkg/types/types.go `Error.Error`.
 */
export function formatFailureText(error: unknown): string {
  if (error instanceof CniError) return error.toString();
  if (error instanceof AggregateError) {
    return error.errors.map(formatFailureText).join("\n");
  }
  if (!(error instanceof Error)) return String(error);
  const message = error.message || error.name;
  return error.cause === undefined
    ? message
    : `${message}: ${formatFailureText(error.cause)}`;
}

/** Says whether the kernel refused something for want of a permission. */
export function isDenied(error: unknown): boolean {
  if (error instanceof AggregateError && error.errors.some(isDenied)) {
    return true;
  }
  return error instanceof Deno.errors.PermissionDenied ||
    isErrno(error, "EPERM", "EACCES") ||
    error instanceof Error && error.cause !== undefined &&
      isDenied(error.cause);
}

/** The document that `--json` prints of a failure. */
export interface FailureDocument {
  /** A code of the CNI specification, 999 if none is known. */
  readonly code: number;
  readonly msg: string;
  readonly details?: string;
}

/** Makes that document of any thrown value. */
export function toFailureDocument(error: unknown): FailureDocument {
  const { cniVersion: _, ...document } = toCniError(error).toObject("");
  return document;
}

/** Exit codes of a program that cannot be run, as of shells. */
const NOT_EXECUTABLE = 126, NOT_FOUND = 127;

/** A program that could not be run. */
export class ExecError extends Error {
  /** What a shell would return. */
  readonly exitCode: number;

  /** Makes the error of a program and what execve(2) said. */
  constructor(file: string, cause: unknown) {
    const isMissing = isErrno(cause, "ENOENT");
    const isSearched = isMissing && !file.includes("/");
    super(
      `Cannot run "${file}"${isSearched ? ": not found in PATH" : ""}`,
      isSearched ? {} : { cause },
    );
    this.exitCode = isMissing ? NOT_FOUND : NOT_EXECUTABLE;
  }
}
