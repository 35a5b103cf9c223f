/**
 * How a plugin is called: as a process, or in this process.
 *
 * @module
 */

import { inNetns } from "../../ffi/netns.ts";
import { JoinedSignal } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { exists, ifPossible } from "../../base/files/io.ts";
import { runToEnd } from "../../base/process/child.ts";
import { COPIED, type Place } from "./place.ts";
import {
  type Executable,
  PLUGIN_PATH,
  readDocument,
  type Reply,
  type Request,
} from "./call.ts";
import type { Scene, Way } from "./scene.ts";

/** How long a call may take, in ms; and with a tracer. */
const CALL_MS = 20_000;

/** Calls an executable as runtimes do. */
export class ProcessWay implements Way, Executable {
  readonly executable: string;
  readonly #callMs: number;
  readonly #signal: AbortSignal | undefined;

  /**
   * @param callMs How long a call may take, in ms
   * @param signal Ends a call, which then throws its reason
   */
  constructor(executable: string, callMs = CALL_MS, signal?: AbortSignal) {
    this.executable = executable;
    this.#callMs = callMs;
    this.#signal = signal;
  }

  async call(place: Place, request: Request): Promise<Reply> {
    return await this.callBy([], place, request);
  }

  async cutShort(scene: Scene): Promise<void> {
    const { killAtEachCall } = await import("./crash.ts");
    await killAtEachCall(scene, this);
  }

  async callBy(
    before: readonly string[],
    place: Place,
    { env, stdin }: Request,
  ): Promise<Reply> {
    const [program = "", ...args] = [...before, this.executable];
    const start = (): Deno.ChildProcess =>
      new Deno.Command(program, {
        args,
        clearEnv: true,
        env: { PATH: PLUGIN_PATH, ...env },
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
        detached: true,
      }).spawn();
    const child = starting(program, place, start);
    using limit = new JoinedSignal(this.#callMs, this.#signal);
    const bytes = new TextEncoder().encode(stdin);
    const ending = await runToEnd(child, bytes, limit.signal);
    this.#signal?.throwIfAborted();
    const { stdout, stderr } = ending;
    const exit = ending.abort
      ? "hung"
      : ending.success
      ? "0"
      : ending.cause.replace(/^exit status /, "");
    return { exit, stdout, stderr, json: readDocument(stdout) };
  }
}

/** @throws {CniError} 999 with the reason, if the program cannot be started */
function starting(
  program: string,
  place: Place,
  start: () => Deno.ChildProcess,
): Deno.ChildProcess {
  try {
    return place.inside(() => inNetns(place.host, start));
  } catch (cause) {
    const action = `Cannot start "${program}"`;
    const isThere = exists(program);
    const isSeen = ifPossible(() =>
      place.inside(() => Deno.statSync(program))
    ) !== undefined;
    throw isThere && !isSeen
      ? new CniError(
        ErrorCode.Internal,
        `${action}: the temporary node has neither /run nor what is mounted ` +
          `below ${COPIED.join(", ")}`,
      )
      : new CniError(ErrorCode.Internal, action, { cause });
  }
}
