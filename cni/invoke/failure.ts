/**
 * Errors for failed plugins.
 *
 * The Go library uses code 0 for errors it makes up itself, which the
 * specification does not define. Here they have code 999, like any unclassified
 * failure. A plugin's own code is always kept.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { optional } from "../config/types.ts";
import { decode, once, parseJson } from "../../base/json/json.ts";
import { PluginNotStarted } from "./find.ts";
import { formatAbort, isTimeout } from "../../base/deadline.ts";
import type { ProcessResult } from "../../base/process/child.ts";

/** How a failed plugin ended. */
export interface Failure extends Omit<ProcessResult, "success"> {
  /** How long it ran. */
  readonly elapsedMs: number;
}

/**
 * Builds the error of a failed plugin: the error that it printed, unless a signal
 * killed it afterwards.
 *
 * Source: containernetworking/cni pkg/invoke/raw_exec.go `pluginErr`.
 *
 * @param path The plugin's executable
 */
export function failure(path: string, failure: Failure): CniError {
  const { stdout, stderr, cause, abort } = failure;
  if (stdout.trim() !== "" && !abort) return readError(path, failure);
  if (stderr.trim() === "" || abort) {
    return internalError(noMessage(cause), describeEnd(path, failure));
  }
  return internalError(
    `netplugin failed: ${quoteEnd(stderr)}: ${cause}`,
    describeEnd(path, { ...failure, stderr: "" }),
  );
}

/**
 * Builds the error of a call that was given up before the plugin was started.
 *
 * @param obstacle Why an earlier attempt to start it failed, if there was one
 */
export function unstartedFailure(
  path: string,
  signal: AbortSignal,
  obstacle?: unknown,
): PluginNotStarted {
  const why = obstacle === undefined ? "" : `: ${describeError(obstacle)}`;
  return new PluginNotStarted(
    ErrorCode.Internal,
    noMessage(formatAbort(signal)),
    { details: `${path} was not started: ${describeAbort(signal)}${why}` },
  );
}

/** Builds the error of a plugin that could not be started. */
export function startFailure(path: string, error: unknown): PluginNotStarted {
  return new PluginNotStarted(
    ErrorCode.Internal,
    noMessage(`fork/exec ${path}: ${formatErrno(error)}`),
  );
}

/** Formats a failed start as Go does: libc's text in lower case. */
function formatErrno(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "no such file or directory";
  const text = describeError(error);
  // As in "Failed to spawn '/a': Permission denied (os error 13)".
  return /.*: (.+) \(os error \d+\)$/s.exec(text)?.[1]?.toLowerCase() ?? text;
}

function internalError(message: string, details = ""): CniError {
  return new CniError(ErrorCode.Internal, message, { details });
}

function noMessage(cause: string): string {
  return `netplugin failed with no error message: ${cause}`;
}

function describeAbort(signal: AbortSignal): string {
  return isTimeout(signal)
    ? "the deadline has passed"
    : "the call was cancelled";
}

function describeEnd(
  path: string,
  { stderr, cause, elapsedMs, abort }: Failure,
): string {
  const end = `${abort ? "was killed" : "ended"} after ${
    Math.round(elapsedMs)
  } ms`;
  const why = abort ? describeAbort(abort) : cause;
  const log = stderr.trim() === "" ? "" : `; stderr: ${quoteEnd(stderr)}`;
  return `${path} ${end}: ${why}${log}`;
}

/** How much of a plugin's output an error quotes, in UTF-16 code units. */
const QUOTED_LENGTH = 4096;

/**
 * Quotes the end of a text, which usually contains the reason of a program's
 * failure.
 */
function quoteEnd(text: string): string {
  const end = text.slice(-QUOTED_LENGTH);
  return JSON.stringify(end === text ? text : `…${end}`);
}

const errorSchema = once(() =>
  z.looseObject({
    code: optional(z.int().check(z.nonnegative())),
    msg: optional(z.string()),
    details: optional(z.unknown()),
    differences: optional(z.unknown()),
  })
);

/** Reads the error a plugin printed, or builds one from its other output. */
function readError(path: string, failure: Failure): CniError {
  try {
    return decodeError(failure) ?? unreadable("it is not an error object");
  } catch (error) {
    return unreadable(describeError(error));
  }

  function unreadable(why: string): CniError {
    return internalError(
      `netplugin failed but error parsing its diagnostic message ${
        quoteEnd(failure.stdout)
      }: ${why}`,
      describeEnd(path, failure),
    );
  }
}

/** @returns Undefined without both a code and a message */
function decodeError({ stdout, cause }: Failure): CniError | undefined {
  const { code = 0, msg, details, differences } = decode(
    errorSchema(),
    parseJson(stdout, "error"),
    "error",
  );
  if (!msg && code === 0) return undefined;
  return new CniError(code, msg || noMessage(cause), {
    ...typeof details === "string" && { details },
    ...Array.isArray(differences) && { differences },
  });
}
