/**
 * Serves a plugin as a daemon, for callers such as the plugin remote.
 *
 * @module
 */

import { basename, dirname } from "@std/path/posix";
import type { Environment } from "../base/process/environment.ts";
import { CniError, ErrorCode, formatFailure } from "../base/error.ts";
import type { PluginLookup } from "../cni/invoke/in_process.ts";
import { createLog } from "../base/log/log.ts";
import { OWN_NETNS } from "../cni/call/own_netns.ts";
import type { Plugin } from "../cni/plugin.ts";
import { writeStderr } from "../base/process/stdio.ts";
import { CURRENT_VERSION } from "../cni/version.ts";
import { type Caller, CallProgress } from "./server/call_progress.ts";
import { Calls } from "./server/calls.ts";
import {
  answerCall,
  CNI_PATH,
  readCall,
  type RunBody,
} from "./server/http_calls.ts";
import { HttpSocket } from "./server/http_socket.ts";
import { SocketFile } from "../base/service/socket_file.ts";
import { ReadWriteLock } from "../base/queue.ts";

/** The path of calls. */
const CALL_PATH = "/cni";
/** How many calls run at the same time by default. */
const MAX_CALLS = 64;

/** Options of {@linkcode serveCni}. */
export interface ServeOptions {
  /**
   * Environment of the plugin, in addition to the CNI_* variables of a call.
   */
  readonly env?: Environment;
  /** Path of the namespace that stands for the host; this thread's by default. */
  readonly hostNetns?: string;
  /** Finds plugins that run in this process when the plugin delegates to them. */
  readonly lookup?: PluginLookup;
  /** How many calls can run at the same time; 64 by default. */
  readonly maxCalls?: number;
  /** Receives log text; stderr by default. */
  readonly onStderr?: (text: string) => void;
  /** Time for calls to finish when the daemon stops, in ms; 10 s by default. */
  readonly graceMs?: number;
  /**
   * How long a GC that waits for slow calls keeps other calls waiting at a time, in ms;
   * 10 s by default.
   */
  readonly gateMs?: number;
}

/** A plugin that serves, until disposal. */
export interface CniServer extends AsyncDisposable {
  /** Path of the socket. */
  readonly socket: string;
}

/**
 * Serves a plugin on a unix socket with thick multus's protocol: `POST /cni`,
 * `/healthz` and `/readyz`. Callers are root and this user.
 *
 * Calls of one container run one at a time, in order of arrival; GC runs alone.
 * While a GC waits for a slow call, other calls pass it, because a DEL among them might
 * cancel the slow call. If the caller of an ADD disconnects, the ADD is undone. Takes
 * over the socket's path from a daemon that uses it. On disposal, it starts no more calls, waits for
 * running calls, and removes the socket.
 *
 * ```ts ignore
 * await using server = await serveCni(plugin, "/run/cni-remote/cni.sock");
 * await new Promise((resolve) => Deno.addSignalListener("SIGTERM", resolve));
 * ```
 *
 * @param socket Its absolute path. Its directory is made with mode 0700 if it does
 *   not exist
 * @throws {CniError} 5 if it cannot listen, or another user could replace the
 *   socket
 */
export async function serveCni(
  plugin: Plugin,
  socket: string,
  options: ServeOptions = {},
): Promise<CniServer> {
  const { env = {}, hostNetns = OWN_NETNS, onStderr = writeStderr } = options;
  const log = createLog({ plugin: plugin.name }, onStderr);
  let isEnding = false;
  const lock = new ReadWriteLock(options.gateMs);
  const calls = new Calls({
    lookup: options.lookup ?? ((): undefined => undefined),
    hostNetns,
    maxCalls: options.maxCalls ?? MAX_CALLS,
    isPerContainer: true,
    log,
  });
  const respond = async (
    request: Request,
    caller: Caller,
  ): Promise<Response> => {
    const run: RunBody = async (body) => {
      const [{ env: sent, config, exe }] = readCall(body);
      const entry = {
        env: { CNI_PATH, ...env, ...sent },
        stdin: config,
        ...exe !== undefined && { exe },
        progress: new CallProgress(caller, "waiting"),
        plugin,
        onStderr,
        from: CALL_PATH,
      };
      const isExclusive = sent["CNI_COMMAND"] === "GC";
      // Without a caller, it takes no turn and is not begun.
      using _turn = await lock.wait(isExclusive, caller.signal);
      const ended = await calls.run(entry);
      calls.report(ended);
      const { outcome } = ended;
      if (!("declined" in outcome)) return outcome;
      const error = new CniError(ErrorCode.TryAgainLater, outcome.declined);
      return formatFailure(error, CURRENT_VERSION);
    };
    return await answerCall(request, { [CALL_PATH]: run }, () => isEnding) ??
      new Response("not found\n", { status: 404 });
  };
  const http = new HttpSocket({ respond, log });
  const file = await SocketFile.create({
    directory: dirname(socket),
    name: basename(socket),
    listen: (path) => http.listen(path),
  });
  return {
    socket: file.path,
    async [Symbol.asyncDispose](): Promise<void> {
      if (isEnding) return;
      isEnding = true;
      await file.remove();
      await calls.stop(options.graceMs);
      await file.close();
      await http.close();
    },
  };
}
