/**
 * A call of remote: its daemon, and its requests.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/call/args.ts";
import type { Environment } from "../../base/process/environment.ts";
import { JoinedSignal } from "../../base/deadline.ts";
import { yieldIfLong } from "../../base/long_wait.ts";
import type { Log } from "../../base/log/log.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { toDaemonError } from "./daemon_errors.ts";
import { exchange, type HttpAnswer, type HttpRequest } from "./http.ts";
import type { RemoteConfig } from "./schema.ts";

/** The values of missing keys, for a name of the plugin. */
export interface Defaults {
  readonly protocol: "cni" | "contiv";
  readonly socket: string;
  readonly interfaces: boolean;
}

/** Default time limits, in seconds. They leave the runtime time to undo ADD. */
const TIMEOUT_SECONDS: Readonly<Record<string, number>> = {
  ADD: 55,
  DEL: 30,
  GC: 55,
  STATUS: 10,
};
const DEFAULT_SECONDS = 30;
const POLL_MS = 100;

/** A call of the plugin. */
export interface RemoteCall extends Disposable {
  readonly command: string;
  readonly args: CmdArgs;
  /** The environment of the call. */
  readonly env: Environment;
  /** The configuration, unchanged. */
  readonly stdin: Uint8Array;
  readonly prevResult: () => Result | undefined;
  readonly config: RemoteConfig;
  readonly protocol: "cni" | "contiv";
  readonly socket: string;
  readonly interfaces: boolean;
  readonly envAll: boolean;
  readonly log: Log;
  /** Aborts the call. */
  readonly signal: AbortSignal;
  /** Adds the configuration's `basePath` to a path. */
  path(path: string): string;
  /**
   * Sends a request, and waits for the response.
   *
   * @throws {CniError} 11 if the daemon is unavailable or does not respond (50 for
   * STATUS), 100 if its response or its socket cannot be used
   */
  request(request: Omit<HttpRequest, "headers">): Promise<HttpAnswer>;
}

/** Prepares a call, and starts its time limit. */
export function openCall(
  call: Call<RemoteConfig>,
  defaults: Defaults,
): RemoteCall {
  const { config, command, args, stdin, context, log } = call;
  const { protocol = defaults.protocol, socket = defaults.socket } = config;
  const limitMs = timeoutOf(config, command) * 1000;
  const joined = new JoinedSignal(limitMs, call.signal);
  // STATUS reports the current state.
  const readySeconds = command === "STATUS"
    ? 0
    : config.readyTimeoutSeconds ?? 0;
  const target = {
    socket,
    signal: joined.signal,
    readyMs: readySeconds * 1000,
    pollMs: config.pollMillis ?? POLL_MS,
  };
  const base = (config.basePath ?? "").replace(/\/+$/, "");
  const path = (path: string): string => base + path;
  return {
    command,
    args,
    env: { ...context.env, CNI_COMMAND: command },
    stdin,
    prevResult: () => call.prevResult,
    config,
    protocol,
    socket,
    interfaces: config.interfaces ?? defaults.interfaces,
    envAll: config.envAll ?? false,
    log,
    signal: joined.signal,
    path,
    async request(request): Promise<HttpAnswer> {
      try {
        const whole = {
          ...request,
          headers: config.headers ?? {},
          path: path(request.path),
        };
        return await yieldIfLong(() => exchange(target, whole));
      } catch (error) {
        throw toDaemonError(error, { command, socket });
      }
    },
    [Symbol.dispose]: () => joined[Symbol.dispose](),
  };
}

function timeoutOf({ timeoutSeconds }: RemoteConfig, command: string): number {
  const own = typeof timeoutSeconds === "object"
    ? timeoutSeconds[command]
    : timeoutSeconds;
  return own ?? TIMEOUT_SECONDS[command] ?? DEFAULT_SECONDS;
}
