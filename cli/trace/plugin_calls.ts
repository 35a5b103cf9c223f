/**
 * Traces the operations of plugins.
 *
 * @module
 */

import type { CmdArgs } from "../../cni/call/args.ts";
import type { JsonObject } from "../../base/json/json.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { toJson } from "./record.ts";
import type { Recorder } from "./recorder.ts";
import type { SpanAttributes } from "./span.ts";

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

/** Returns a plugin whose operations are recorded. */
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
