/**
 * The daemon of a node.
 *
 * @module
 */

import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { CallFailure, PATH } from "./call.ts";
import { pause } from "./netns.ts";
import { PreparedProgram, waitFor } from "./process.ts";

const POLL_MS = 10, DEADLINE_MS = 10_000;

/** A daemon that runs. */
export class BenchDaemon implements Disposable {
  readonly #pid: number;

  /**
   * Starts a daemon, and returns once it listens.
   *
   * @param path The executable `cni`
   * @param socket Where it is to listen; its folder is made
   * @param host The namespace that stands for the host's
   * @throws {CallFailure} If it does not listen in time
   */
  constructor(path: string, socket: string, host: NetNs) {
    const folder = socket.slice(0, socket.lastIndexOf("/"));
    Deno.mkdirSync(folder, { mode: 0o700 });
    const args = ["daemon", "--socket-dir", folder];
    const [stdin, stdout, log] = ["/dev/null", "/dev/null", `${folder}/log`];
    const env = { PATH };
    using program = new PreparedProgram(
      { path, args, env, stdin, stdout, stderr: log },
    );
    this.#pid = inNetns(host, () => program.start());
    const deadlineMs = performance.now() + DEADLINE_MS;
    while (!exists(socket)) {
      if (performance.now() < deadlineMs) {
        pause(POLL_MS);
        continue;
      }
      this[Symbol.dispose]();
      const said = Deno.readTextFileSync(log);
      const call = { path, args, env, stdin };
      throw new CallFailure(call, 1, `it does not listen: ${said}`);
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
