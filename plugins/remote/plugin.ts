/**
 * remote: delegates the attachment of the container to a daemon on this node, over
 * HTTP on a unix socket.
 *
 * ```
 *   runtime ──ADD──▶ remote ──POST /cni──▶ daemon ──result──▶ remote ──▶ runtime
 *                            (unix socket)
 * ```
 *
 * The protocol `cni` is thick multus' protocol, `contiv` is contivk8s' protocol. With
 * the name contivk8s, the plugin replaces that program. It stores nothing itself, so
 * the state after DEL depends on the daemon.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { encodeResult } from "../../cni/result/encoding.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { type Defaults, openCall, type RemoteCall } from "./call.ts";
import { DaemonMissing, UnusableResult } from "./daemon_errors.ts";
import type { RemoteConfig } from "./schema.ts";

/** The plugin. */
export const remote: Plugin<RemoteConfig> = define("remote", {
  protocol: "cni",
  socket: "/run/cni-remote/cni.sock",
  interfaces: true,
});

/**
 * remote as a replacement for contiv's plugin. Source: contiv/netplugin
 * mgmtfn/k8splugin.
 */
export const contivk8s: Plugin<RemoteConfig> = define("contivk8s", {
  protocol: "contiv",
  socket: "/run/contiv/contiv-cni.sock",
  interfaces: false,
});

function define(name: string, defaults: Defaults): Plugin<RemoteConfig> {
  const open = (call: Call<RemoteConfig>): RemoteCall =>
    openCall(call, defaults);
  return definePlugin({
    name,
    versions: SPEC_VERSIONS,
    configSchema: async () => (await import("./schema.ts")).remoteSchema(),

    async add(call): Promise<Result> {
      using remoteCall = open(call);
      const { add } = await protocolOf(remoteCall);
      try {
        const result = await add(remoteCall);
        checkVersion(result, call.cniVersion);
        return result;
      } catch (error) {
        if (!(error instanceof UnusableResult)) throw error;
        await undo({ ...call, command: "DEL" }, defaults);
        throw error.cause;
      }
    },

    async check(call): Promise<void> {
      using remoteCall = open(call);
      const { check } = await protocolOf(remoteCall);
      await check(remoteCall);
    },

    async del(call): Promise<void> {
      using remoteCall = open(call);
      const { del } = await protocolOf(remoteCall);
      try {
        await del(remoteCall);
      } catch (error) {
        if (!isForgiven(remoteCall, error)) throw error;
        call.log.warn("DEL continued without the daemon", {
          socket: remoteCall.socket,
          error: describeError(error),
        });
      }
    },

    async gc(call): Promise<void> {
      using remoteCall = open(call);
      const { gc } = await protocolOf(remoteCall);
      await gc(remoteCall);
    },

    async status(call): Promise<void> {
      using remoteCall = open(call);
      const { status } = await protocolOf(remoteCall);
      await status(remoteCall);
    },
  });
}

/** The commands of a protocol. */
interface Protocol {
  add(call: RemoteCall): Promise<Result>;
  check(call: RemoteCall): Promise<void>;
  del(call: RemoteCall): Promise<void>;
  gc(call: RemoteCall): Promise<void>;
  status(call: RemoteCall): Promise<void>;
}

async function protocolOf({ protocol }: RemoteCall): Promise<Protocol> {
  if (protocol === "contiv") {
    const { add, del, status } = await import("./contiv_protocol.ts");
    const nothing = (): Promise<void> => Promise.resolve();
    return { add, del, status, check: nothing, gc: nothing };
  }
  const { add, run, status } = await import("./cni_protocol.ts");
  return { add, del: run, check: run, gc: run, status };
}

/** Fails while ADD can still be undone, if the version cannot express the result. */
function checkVersion(result: Result, cniVersion: string): void {
  try {
    encodeResult(result, cniVersion);
  } catch (cause) {
    throw new UnusableResult("the result cannot be used", { cause });
  }
}

/**
 * Undoes an ADD that the daemon has run, but whose result cannot be used. If the
 * daemon itself reports a failure, or its response is lost, the runtime runs DEL.
 */
async function undo(
  call: Call<RemoteConfig>,
  defaults: Defaults,
): Promise<void> {
  using remoteCall = openCall(call, defaults);
  try {
    await (await protocolOf(remoteCall)).del(remoteCall);
  } catch (failure) {
    call.log.warn("Cannot undo ADD; DEL must follow", {
      error: describeError(failure),
    });
  }
}

/**
 * Reports whether DEL succeeds in spite of an error: the daemon is unavailable or
 * does not know the container, or it uses contiv, whose DEL never fails.
 */
function isForgiven(
  { config, protocol }: RemoteCall,
  error: unknown,
): boolean {
  if (config.delPolicy === "strict") return false;
  return protocol === "contiv" || error instanceof DaemonMissing ||
    error instanceof CniError && error.code === ErrorCode.UnknownContainer;
}
