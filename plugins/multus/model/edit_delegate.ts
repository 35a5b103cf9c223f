/**
 * Completes the configurations of networks. A document that is edited is encoded
 * again, including unknown keys.
 *
 * @module
 */

import {
  ALLOWS_CLAIMS,
  CLAIM_REFERENCE,
  POD_EVIDENCE,
  type PodEvidence,
} from "../../../kube/pod_evidence.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  findValue,
  foldKey,
  isObject,
  type JsonObject,
  type JsonValue,
  objectOf,
} from "../../../base/json/json.ts";
import {
  injectConf,
  type NetworkConfList,
  parseDocument,
  parseNetworkConf,
  parseNetworkConfList,
  setKeys,
} from "../../../libcni/conf.ts";
import { encodeJson } from "../../../base/json/json_bytes.ts";
import {
  type Delegate,
  type DelegateDevice,
  isList,
  pluginsOf,
} from "./delegate.ts";

/**
 * Sets the name of a configuration without a name.
 *
 * Source: network-attachment-definition-client pkg/utils/net-attach-def.go
 * `getCNIConfigFromSpec`, for which the key is case-sensitive.
 *
 * @returns The same bytes if the configuration has a name
 * @throws {CniError} 6 If it is not JSON, 7 if it is not an object
 */
export function injectName(bytes: Uint8Array, name: string): Uint8Array {
  const document = parseDocument("configuration", bytes);
  return (document["name"] ?? "") === ""
    ? encodeJson({ ...document, name })
    : bytes;
}

/**
 * Sets the device as `deviceID` and `pciBusID` of the single plugin, or of every
 * plugin of the list, and in the delegate.
 *
 * @throws {CniError} 7 If the configuration cannot be encoded
 */
export function injectDeviceId(
  delegate: Delegate,
  { resourceName, deviceId }: DelegateDevice,
): Delegate {
  const edited = editPlugins(
    delegate,
    (plugin) => injectConf(plugin, { deviceID: deviceId, pciBusID: deviceId }),
  );
  return { ...edited, resourceName, deviceId };
}

/**
 * Sets keys in `args.cni` of the single plugin, or of every plugin of the list.
 * Other keys are kept.
 *
 * @throws {CniError} 7 If `args` or `args.cni` is not an object
 */
export function injectCniArgs(
  delegate: Delegate,
  cniArgs: JsonObject,
): Delegate {
  return editPlugins(delegate, (plugin) => {
    const args = getObject(plugin, "args");
    const cni = getObject(args, "cni");
    const merged = setKeys(args, { cni: setKeys(cni, cniArgs) });
    return injectConf(plugin, { args: merged });
  });
}

/**
 * Reports whether a network permits pods to name IPAMClaims. The key is next to the
 * plugins of a list, where plugins do not receive it, or in a plugin.
 */
export function allowsClaims({ conf }: Delegate): boolean {
  const documents = pluginsOf(conf).map(({ document }) => document);
  const top = isList(conf)
    ? [parseDocument("configuration list", conf.bytes)]
    : [];
  return [...top, ...documents]
    .some((one) => findValue(one, ALLOWS_CLAIMS) === true);
}

/**
 * Adds the IPAMClaim that the pod names, and the pod's identity, to each plugin's
 * configuration. Without a claim, its name is "".
 */
export function injectClaim(
  delegate: Delegate,
  evidence: PodEvidence | undefined,
): Delegate {
  const { request: { claim = "" } } = delegate;
  const named = injectCniArgs(delegate, { [CLAIM_REFERENCE]: claim });
  const allowing = editPlugins(
    named,
    (plugin) => injectConf(plugin, { [ALLOWS_CLAIMS]: true }),
  );
  return evidence ? injectEvidence(allowing, evidence) : allowing;
}

/** Reports whether pods that name no claim keep their addresses. */
export function staysByPod({ conf }: Delegate): boolean {
  return pluginsOf(conf).some(({ document }) => {
    const ipam = objectOf(findValue(document, "ipam"));
    return (findValue(ipam, "stay") ?? undefined) !== undefined;
  });
}

/** Adds the pod's identity to each plugin's configuration. */
export function injectEvidence(
  delegate: Delegate,
  evidence: PodEvidence,
): Delegate {
  const known = evidence as unknown as JsonObject;
  return editPlugins(
    delegate,
    (plugin) => injectConf(plugin, { [POD_EVIDENCE]: known }),
  );
}

/**
 * The key of the earlier plugins' result, folded. Only a runtime provides it.
 */
const PREV_RESULT = foldKey("prevResult");

/**
 * The prefix of keys with which a runtime, or multus, passes information to plugins.
 */
const RESERVED = "cni.dev/";

/**
 * Removes, at any depth, keys that only a runtime or multus is permitted to set: a
 * definition with such a key could impersonate the pod.
 *
 * @returns The same delegate if it contains no such key
 */
export function removeReserved(delegate: Delegate): Delegate {
  const { conf } = delegate;
  const document = parseDocument("configuration", conf.bytes);
  if (!hasReserved(document)) return delegate;
  const bytes = encodeJson(withoutReserved(document));
  return {
    ...delegate,
    conf: isList(conf) ? parseNetworkConfList(bytes) : parseNetworkConf(bytes),
  };
}

function isReserved(key: string): boolean {
  const folded = foldKey(key);
  return folded.startsWith(RESERVED) ||
    [CLAIM_REFERENCE, PREV_RESULT].includes(folded);
}

function hasReserved(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.some(hasReserved);
  return isObject(value) &&
    Object.entries(value as JsonObject)
      .some(([key, item]) => isReserved(key) || hasReserved(item));
}

function withoutReserved<T extends JsonValue>(value: T): T;
function withoutReserved(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map((item) => withoutReserved(item));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value as JsonObject)
      .filter(([key]) => !isReserved(key))
      .map(([key, item]) => [key, withoutReserved(item)]),
  );
}

/** Returns a nested object; an empty object if it is absent. */
function getObject(parent: JsonObject, key: string): JsonObject {
  const value = findValue(parent, key) ?? {};
  if (isObject(value)) return value as JsonObject;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `Cannot set "cni-args": "${key}" of the configuration is not an object`,
  );
}

/**
 * Sets the version of a list without a version. A single plugin is unchanged, because
 * without a version it uses 0.1.0.
 *
 * Source: multus-cni pkg/multus/multus.go `DelegateAdd`, `DelegateDel`.
 */
export function injectCniVersion(
  delegate: Delegate,
  cniVersion: string,
): Delegate {
  const { conf } = delegate;
  if (!isList(conf) || conf.cniVersion !== "" || cniVersion === "") {
    return delegate;
  }
  const document = parseDocument("configuration list", conf.bytes);
  return { ...delegate, conf: encodeList({ ...document, cniVersion }) };
}

/** Edits the object of the single plugin, or of every plugin. */
function editPlugins(
  delegate: Delegate,
  edit: (plugin: JsonObject) => JsonObject,
): Delegate {
  const { conf } = delegate;
  if (!isList(conf)) {
    const bytes = encodeJson(edit(conf.plugin.document));
    return { ...delegate, conf: parseNetworkConf(bytes) };
  }
  const document = parseDocument("configuration list", conf.bytes);
  const plugins = conf.plugins.map((plugin) => edit(plugin.document));
  return { ...delegate, conf: encodeList({ ...document, plugins }) };
}

function encodeList(document: JsonObject): NetworkConfList {
  return parseNetworkConfList(encodeJson(document));
}
