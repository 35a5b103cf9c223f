/**
 * Traces the operations of plugins, and their waits for locks.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/call/args.ts";
import type { JsonObject } from "../../base/json/json.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { toJson } from "./record.ts";
import type { Recorder, Subject } from "./recorder.ts";
import type { SpanAttributes } from "./span.ts";
import type { Environment } from "../../base/process/environment.ts";
import { FileLock } from "../../base/files/lock.ts";

/** The loaders of plugins, which are replaced while tracing. */
export type Loaders = Record<string, () => Promise<Plugin>>;

const OPERATIONS = ["add", "check", "del", "gc", "status"] as const;

/**
 * Records what plugins do.
 *
 * @param loaders The registry of plugins
 * @returns Stops it
 */
export function tracePlugins(recorder: Recorder, loaders: Loaders): () => void {
  const originals = { ...loaders };
  for (const [type, load] of Object.entries(originals)) {
    loaders[type] = async () => wrapPlugin(recorder, await load());
  }
  return () => {
    Object.assign(loaders, originals);
  };
}

/** Returns a plugin that records its operations. */
export function wrapPlugin(recorder: Recorder, plugin: Plugin): Plugin {
  const wrapped: Record<string, unknown> = { ...plugin };
  for (const operation of OPERATIONS) {
    const original = plugin[operation];
    if (original === undefined) continue;
    wrapped[operation] = (call: Parameters<typeof original>[0]): unknown =>
      recorder.around(
        {
          kind: "plugin",
          name: `${plugin.name} ${operation.toUpperCase()}`,
          object: call.args.ifName,
          detail: () => describeCall(call),
          attributes: {
            ...attributesOf(call.args),
            "cni.plugin": plugin.name,
            "cni.network": call.network,
          },
        },
        () => Reflect.apply(original, plugin, [call]) as unknown,
      );
  }
  return wrapped as unknown as Plugin;
}

function describeCall(
  { args, network, config }: Parameters<NonNullable<Plugin["add"]>>[0],
): JsonObject {
  const { containerId, netns } = args;
  return { network, containerId, netns, config: toJson(config) } as JsonObject;
}

/** Names the attachment. */
function attributesOf({ containerId, ifName }: CmdArgs): SpanAttributes {
  return { "cni.container_id": containerId, "cni.ifname": ifName };
}

/**
 * Describes a call.
 *
 * @param plugin The plugin's type
 * @param network The network's name, if it is known
 */
export function describeSubject(
  plugin: string,
  env: Environment,
  network?: string,
): Subject {
  const command = env["CNI_COMMAND"] ?? "";
  const args = new Map(
    (env["CNI_ARGS"] ?? "").split(";").map((pair) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), pair.slice(at + 1)] as const;
    }),
  );
  return {
    kind: "call",
    name: command === "" ? plugin : `CNI ${command}`,
    attributes: {
      "cni.plugin": plugin,
      "cni.command": command || undefined,
      "cni.network": network,
      "cni.container_id": env["CNI_CONTAINERID"],
      "cni.ifname": env["CNI_IFNAME"],
      "cni.netns": env["CNI_NETNS"],
      "k8s.namespace.name": args.get("K8S_POD_NAMESPACE"),
      "k8s.pod.name": args.get("K8S_POD_NAME"),
      "k8s.pod.uid": args.get("K8S_POD_UID"),
    },
  };
}

/**
 * Records how long this process waits for locks of files.
 *
 * @returns Stops it
 */
export function traceLocks(recorder: Recorder): () => void {
  const { acquire, acquireExisting } = FileLock;
  const wait = (
    path: string,
    work: () => Promise<FileLock>,
  ): Promise<FileLock> =>
    recorder.around({ kind: "wait", name: "lock", object: path }, work);
  FileLock.acquire = (path, mode, how) =>
    wait(path, () => acquire.call(FileLock, path, mode, how));
  FileLock.acquireExisting = (path, how) =>
    wait(path, () => acquireExisting.call(FileLock, path, how));
  return () => {
    FileLock.acquire = acquire;
    FileLock.acquireExisting = acquireExisting;
  };
}
