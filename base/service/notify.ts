/**
 * Notifies the service manager of the daemon's state.
 *
 * @module
 */

import type { Environment } from "../process/environment.ts";
import { pause } from "../deadline.ts";
import { describeError } from "../error.ts";
import type { Log } from "../log/log.ts";
import { sendDatagram } from "../../ffi/socket/unix_socket.ts";

/** The service manager that started this process, if it expects notifications. */
export class ServiceManager {
  readonly #env: Environment;
  readonly #log: Pick<Log, "warn">;

  /** @param env The service's environment */
  constructor(env: Environment, log: Pick<Log, "warn">) {
    this.#env = env;
    this.#log = log;
  }

  /**
   * Sends a state, such as `READY=1`. Logs a failure.
   *
   * Source: sd_notify(3).
   */
  notify(state: string): void {
    const path = this.#env["NOTIFY_SOCKET"];
    if (!path) return;
    try {
      sendDatagram(path, state);
    } catch (error) {
      const why = describeError(error);
      this.#log.warn("Cannot reach the service manager", { error: why });
    }
  }

  /**
   * Notifies the watchdog until disposal, from the loop that runs calls. Without
   * notifications, the service manager restarts the service after its watchdog time.
   *
   * Source: sd_watchdog_enabled(3).
   */
  watch(): Disposable {
    const { WATCHDOG_USEC, WATCHDOG_PID } = this.#env;
    const ms = Number(WATCHDOG_USEC ?? 0) / 1000;
    const isForUs = WATCHDOG_PID === undefined ||
      WATCHDOG_PID === String(Deno.pid);
    if (!(ms > 0) || !isForUs) return { [Symbol.dispose](): void {} };
    const end = new AbortController();
    this.#feedWatchdog(ms / 2, end.signal);
    return { [Symbol.dispose]: (): void => end.abort() };
  }

  async #feedWatchdog(everyMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.notify("WATCHDOG=1");
      await pause(everyMs, signal);
    }
  }
}
