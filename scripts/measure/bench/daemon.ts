/**
 * Processes that run on a node while others are measured: its daemon, that of
 * thick multus, and the API server.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { CallFailure, PATH } from "./call.ts";
import { pause } from "./netns.ts";
import { PreparedProgram, waitFor } from "./process.ts";

const POLL_MS = 10, DEADLINE_MS = 60_000;

/** A daemon to start. */
export interface DaemonProgram {
  readonly path: string;
  readonly args: readonly string[];
  /** The environment, to which PATH is added. */
  readonly env?: Readonly<Record<string, string>>;
  /** The file that exists once it is ready; its directory exists already. */
  readonly ready: string;
  /** Where its output goes. */
  readonly log: string;
}

/** A daemon that runs. */
export class BenchDaemon implements Disposable {
  readonly #pid: number;

  /**
   * Starts a daemon, and returns once it is ready.
   *
   * @param host The namespace that stands for the host's
   * @throws {CallFailure} If it is not ready in time
   */
  constructor(
    { path, args, ready, log, ...more }: DaemonProgram,
    host: NetNs,
  ) {
    const [stdin, stdout] = ["/dev/null", "/dev/null"];
    const env = { ...more.env, PATH };
    using program = new PreparedProgram(
      { path, args, env, stdin, stdout, stderr: log },
    );
    this.#pid = inNetns(host, () => program.start());
    const deadlineMs = performance.now() + DEADLINE_MS;
    while (!exists(ready)) {
      if (performance.now() < deadlineMs) {
        pause(POLL_MS);
        continue;
      }
      this[Symbol.dispose]();
      const said = Deno.readTextFileSync(log);
      const call = { path, args, env, stdin };
      throw new CallFailure(call, 1, `it is not ready: ${said}`);
    }
  }

  /** The processor time that its threads have used so far. */
  get cpuMs(): number {
    const tasks = `/proc/${this.#pid}/task`;
    return [...Deno.readDirSync(tasks)].reduce((sum, { name }) => {
      const [nanoseconds] = Deno.readTextFileSync(`${tasks}/${name}/schedstat`)
        .split(" ");
      return sum + Number(nanoseconds) / 1e6;
    }, 0);
  }

  /** Ends it, and waits for its end. */
  [Symbol.dispose](): void {
    Deno.kill(this.#pid, "SIGKILL");
    waitFor(this.#pid);
  }
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
