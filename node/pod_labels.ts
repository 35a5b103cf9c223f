/**
 * A pod's labels in the configuration of every plugin.
 *
 * @module
 */

import {
  type JsonObject,
  type JsonValue,
  objectOf,
  parseJson,
} from "../base/json/json.ts";
import { encodeJson } from "../base/json/json_bytes.ts";
import {
  injectConf,
  type NetworkConfList,
  parseNetworkConfList,
} from "../libcni/mod.ts";

/**
 * Builds the network of one pod, whose plugins find the pod's labels in
 * `args.cni.labels`. The labels become part of the cached configuration, for
 * CHECK and DEL.
 *
 * Source: CNI CONVENTIONS.md, "args in network config".
 */
export function withLabels(
  list: NetworkConfList,
  labels: Readonly<Record<string, string>> = {},
): NetworkConfList {
  const pairs = Object.entries(labels).map(([key, value]) => ({ key, value }));
  if (pairs.length === 0) return list;
  const plugins = list.plugins.map(({ document }) =>
    injectConf(document, { args: addLabels(document["args"], pairs) })
  );
  const document = objectOf(parseJson(list.bytes) as JsonValue);
  return parseNetworkConfList(
    encodeJson({ ...document, loadOnlyInlinedPlugins: true, plugins }),
  );
}

function addLabels(
  args: JsonValue | undefined,
  labels: JsonObject[],
): JsonObject {
  const others = objectOf(args);
  return { ...others, cni: { ...objectOf(others["cni"]), labels } };
}
