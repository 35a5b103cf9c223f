/**
 * Running a plugin as a process of its own.
 *
 * @module
 */

import type { Environment } from "../args.ts";
import { CniError, ErrorCode } from "../error.ts";
import { findPlugin, splitPath } from "./find.ts";
import type { Invocation, Invoker } from "./invoker.ts";

/** Runs the executable that CNI_PATH leads to. */
export const execInvoker: Invoker = {
  async invoke(invocation): Promise<string> {
    const folders = splitPath(invocation.env["CNI_PATH"] ?? "");
    return await execPlugin(findPlugin(invocation.type, folders), invocation);
  },
};

/**
 * Runs the executable at `path`.
 *
 * @param pause Waits before one more try to start a file that is being written
 * @returns What it printed on stdout
 * @throws {CniError} The plugin's own error, else 999 with what is known of its end
 */
export async function execPlugin(
  path: string,
  { env, stdin, onStderr }: Omit<Invocation, "type" | "hostNetns">,
  pause: () => Promise<void> = pauseOneSecond,
): Promise<string> {
  const child = await start(path, env, pause);
  const [output] = await Promise.all([child.output(), feed(child, stdin)]);
  const [stdout, stderr] = [output.stdout, output.stderr].map(decodeText);
  if (stderr) onStderr(stderr);
  if (output.success) return stdout ?? "";
  throw failure(path, {
    stdout: stdout ?? "",
    stderr: stderr ?? "",
    cause: output.signal === null
      ? `exit status ${output.code}`
      : `signal: ${output.signal}`,
  });
}

/** How often a start is tried again. */
const RETRIES = 5;

/**
 * Starts a plugin. While somebody copies a new version over it, it cannot be
 * started, and for a moment it is worth waiting for.
 *
 * Source: containernetworking/cni pkg/invoke/raw_exec.go `ExecPlugin`.
 */
async function start(
  path: string,
  env: Environment,
  pause: () => Promise<void>,
): Promise<Deno.ChildProcess> {
  for (let retries = RETRIES;; retries--) {
    try {
      return spawn(path, env);
    } catch (error) {
      if (retries === 0 || !isUnfinished(error)) {
        const message = `Cannot run plugin "${path}"`;
        throw new CniError(ErrorCode.Internal, message, { cause: error });
      }
    }
    await pause();
  }
}

function pauseOneSecond(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1000));
}

function spawn(path: string, env: Environment): Deno.ChildProcess {
  if (!hasProgramFormat(path)) throw new FormatError("exec format error");
  return new Deno.Command(path, {
    clearEnv: true,
    env,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** A file that is no program, or is none yet. */
class FormatError extends Error {}

/**
 * Says whether a file is a program as the kernel knows them. Any other one Deno,
 * by execvp(3), would give to /bin/sh as a script: a file that a crash has left
 * empty would succeed at everything.
 */
function hasProgramFormat(path: string): boolean {
  const start = new Uint8Array(4);
  try {
    using file = Deno.openSync(path);
    file.readSync(start);
  } catch {
    return true; // It may be allowed to run it and not to read it.
  }
  const text = decodeText(start);
  return text === "\x7fELF" || text.startsWith("#!");
}

/** Says whether a start failed because of a file that is still being copied. */
function isUnfinished(error: unknown): boolean {
  // Deno has no class and no code for ETXTBSY, which is 26 everywhere.
  return error instanceof FormatError ||
    error instanceof Error && error.message.endsWith("(os error 26)");
}

/** Hands the configuration over. A plugin that does not read it is no failure. */
async function feed(
  child: Deno.ChildProcess,
  stdin: Uint8Array,
): Promise<void> {
  const writer = child.stdin.getWriter();
  try {
    await writer.write(stdin);
    await writer.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

function decodeText(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** How a plugin ended that did not succeed. */
export interface Ending {
  readonly stdout: string;
  readonly stderr: string;
  /** The exit status or signal, in words. */
  readonly cause: string;
}

/**
 * Makes an error of a plugin's end: its own if it printed one.
 *
 * Source: containernetworking/cni pkg/invoke/raw_exec.go `pluginErr`.
 */
export function failure(path: string, ending: Ending): CniError {
  const { stdout, stderr, cause } = ending;
  if (stdout.trim() === "") {
    const msg = stderr.trim() === ""
      ? `netplugin failed with no error message: ${cause}`
      : `netplugin failed: ${quoteEnd(stderr)}: ${cause}`;
    return new CniError(ErrorCode.Internal, msg, { details: path });
  }
  return parseError(stdout) ?? new CniError(
    ErrorCode.Internal,
    `netplugin failed but error parsing its diagnostic message ${
      quoteEnd(stdout)
    }: ${cause}`,
    { details: path },
  );
}

/** How much of a plugin's output an error repeats, in UTF-16 code units. */
const QUOTED_LENGTH = 4096;

/** Quotes the end of a text: what a program says last is why it failed. */
function quoteEnd(text: string): string {
  const whole = text.trim();
  const end = whole.slice(-QUOTED_LENGTH);
  return JSON.stringify(end === whole ? whole : `…${end}`);
}

/** Reads an error object; undefined if the text is none. */
function parseError(text: string): CniError | undefined {
  try {
    const { code = 0, msg, details } = JSON.parse(text);
    const isCode = Number.isInteger(code) && code >= 0;
    if (!isCode || typeof msg !== "string" || msg === "") return undefined;
    return new CniError(
      code,
      msg,
      typeof details === "string" && details !== "" ? { details } : {},
    );
  } catch {
    return undefined;
  }
}
