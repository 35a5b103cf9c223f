/**
 * Generates the configuration of multus from the master network's.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import { encodeJson } from "../../../base/json/json_bytes.ts";
import {
  CURRENT_VERSION,
  isAtLeast,
  isSpecVersion,
} from "../../../cni/version.ts";
import type { Master } from "./master.ts";
import type { ConfigurationOptions } from "./options.ts";

/** The two possible names of our configuration. */
export const FILE_NAMES = ["00-multus.conf", "00-multus.conflist"] as const;

/** A configuration of multus. */
export interface MultusConf {
  readonly fileName: typeof FILE_NAMES[number];
  readonly content: string;
}

/** The options that affect the content. */
export type MultusConfOptions = Pick<
  ConfigurationOptions,
  "cniVersion" | "forcesVersion" | "takesName" | "keys"
>;

/**
 * Formats the configuration exactly like the reference: as a list from 1.0.0
 * on, with the master network inside.
 *
 * Source: multus-cni cmd/thin_entrypoint/main.go `multusConflistTemplate`,
 * `multusConfTemplate`.
 *
 * @throws {CniError} 1 if the master network's version is not supported or not
 *   the required one, 7 if it has none
 */
export function formatMultusConf(
  master: Master,
  options: MultusConfOptions,
): MultusConf {
  const cniVersion = chooseVersion(master, options);
  const name = options.takesName ? master.name : "multus-cni-network";
  const delegate = new TextDecoder().decode(encodeJson(
    options.forcesVersion
      ? { ...master.document, cniVersion }
      : master.document,
  ));
  const keys = [
    ["type", "multus"],
    ...master.capabilities.length === 0 ? [] : [describeCapabilities(master)],
    ...Object.entries(options.keys),
  ];
  const head: Member[] = [["cniVersion", cniVersion], ["name", name]];
  // Plugins from separate files are already included: by that name the runtime
  // would load those files as well.
  const hasAll = master.document["loadOnlyInlinedPlugins"] === true;
  if (options.takesName && hasAll) head.push(["loadOnlyInlinedPlugins", true]);
  return isAtLeast(cniVersion, "1.0.0")
    ? {
      fileName: "00-multus.conflist",
      content: formatList(head, keys, delegate),
    }
    : {
      fileName: "00-multus.conf",
      content: formatBare([...head, ...keys], delegate),
    };
}

type Member = readonly unknown[];

function describeCapabilities({ capabilities }: Master): Member {
  const wanted = capabilities.map((name) => [name, true] as const);
  return ["capabilities", Object.fromEntries(wanted)];
}

function formatList(
  head: readonly Member[],
  keys: readonly Member[],
  delegate: string,
): string {
  return `{
${formatMembers(head, 4)}
    "plugins": [ {
${formatMembers(keys, 8)}
        "delegates": [
            ${delegate}
        ]
    }]
}
`;
}

function formatBare(keys: readonly Member[], delegate: string): string {
  return `{
${formatMembers(keys, 8)}
        "delegates": [
                ${delegate}
        ]
}
`;
}

function formatMembers(members: readonly Member[], indent: number): string {
  return members
    .map(([key, value]) =>
      `${" ".repeat(indent)}"${key}": ${JSON.stringify(value)},`
    ).join("\n");
}

function chooseVersion(
  { path, document }: Master,
  { cniVersion: wanted, forcesVersion }: MultusConfOptions,
): string {
  const version = forcesVersion ? wanted : document["cniVersion"];
  if (typeof version !== "string" || version === "") {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `cannot get cniVersion in master CNI config file "${path}"`,
    );
  }
  if (wanted !== "" && version !== wanted) {
    throw incompatible(
      `Multus cni version is "${wanted}" while master plugin cni version is "${version}"`,
    );
  }
  if (isSpecVersion(version)) return version;
  throw incompatible(
    `Cannot use "${path}" as master network: cniVersion "${version}" is not supported; the newest is ${CURRENT_VERSION}`,
  );
}

function incompatible(message: string): CniError {
  return new CniError(ErrorCode.IncompatibleVersion, message);
}
