/**
 * How a plugin is called: as a process, or in this process.
 *
 * @module
 */

import { inNetns } from "../../ffi/netns.ts";
import { JoinedSignal } from "../../cni/call/deadline.ts";
import { runToEnd } from "../../cni/invoke/child.ts";
import type { Place } from "./place.ts";
import type { Scene } from "./scene.ts";

/** A call. */
export interface Request {
  /** The variables that begin with `CNI_`, and a configured environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** What came of a call. */
export interface Reply {
  /** `0`, `1`, ...; `signal: killed`; `hung` if it did not end in time. */
  readonly exit: string;
  readonly stdout: string;
  readonly stderr: string;
  /** The document on stdout; undefined if that is not one. */
  // deno-lint-ignore no-explicit-any -- demands look into it as they please
  readonly json: any;
}

/** A way to call the plugin. */
export interface Way {
  call(place: Place, request: Request): Promise<Reply>;
  /**
   * Cuts an ADD short at each of its steps, and fails unless DEL removes what it
   * left.
   *
   * @throws {Broken} If something is left
   */
  cutShort(scene: Scene): Promise<void>;
}

/** How long a call may take, in ms; and with a tracer. */
const CALL_MS = 20_000;

/** Calls an executable as runtimes do. */
export class ProcessWay implements Way {
  readonly executable: string;
  readonly #callMs: number;

  /** @param callMs How long a call may take, in ms */
  constructor(executable: string, callMs = CALL_MS) {
    this.executable = executable;
    this.#callMs = callMs;
  }

  async call(place: Place, request: Request): Promise<Reply> {
    return await this.callBy([], place, request);
  }

  async cutShort(scene: Scene): Promise<void> {
    const { killAtEachCall } = await import("./crash.ts");
    await killAtEachCall(scene, this);
  }

  /** @param before A program that starts the executable, such as a tracer */
  async callBy(
    before: readonly string[],
    place: Place,
    { env, stdin }: Request,
  ): Promise<Reply> {
    const [program = "", ...args] = [...before, this.executable];
    const child = place.inside(() =>
      inNetns(place.host, () =>
        new Deno.Command(program, {
          args,
          clearEnv: true,
          env: { PATH: PLUGIN_PATH, ...env },
          stdin: "piped",
          stdout: "piped",
          stderr: "piped",
          detached: true,
        }).spawn())
    );
    using limit = new JoinedSignal(this.#callMs);
    const bytes = new TextEncoder().encode(stdin);
    const ending = await runToEnd(child, bytes, limit.signal);
    const { stdout, stderr } = ending;
    const exit = ending.abort
      ? "hung"
      : ending.success
      ? "0"
      : ending.cause.replace(/^exit status /, "");
    return { exit, stdout, stderr, json: readDocument(stdout) };
  }
}

/** The PATH that plugins get. */
export const PLUGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin" +
  ":/sbin:/bin";

/** Reads a text that is one JSON document; undefined otherwise. */
export function readDocument(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Writes a call as a line for bash. */
export function formatCall(executable: string, request: Request): string {
  const variables = Object.entries(request.env)
    .map(([name, value]) => `${name}=${quote(value)}`);
  const stdin = request.stdin.length > 4000
    ? `<<< '${request.stdin.slice(0, 100)}...' # ${request.stdin.length} bytes`
    : `<<< ${quote(request.stdin, true)}`;
  return [...variables, executable, stdin].join(" ");
}

function quote(text: string, always = false): string {
  return !always && /^[\w./:@%+,-]+$/.test(text)
    ? text
    : `'${text.replaceAll("'", "'\\''")}'`;
}
