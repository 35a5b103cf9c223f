/**
 * The settings of a call.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { omitAbsent } from "../../base/json/json.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Mac } from "../../net/mac.ts";
import { firstMac, macInArgs, macInConfig } from "../parts/link/mac.ts";
import type { LinkSettings } from "../parts/link/link_settings.ts";
import type { TuningConfig } from "./schema.ts";
import { type Sysctl, sysctlOf } from "./sysctls.ts";

/** The settings of a call. */
export interface Settings {
  /** The sysctls, in the configuration's order. */
  readonly sysctls: readonly Sysctl[];
  /** The settings of the container's interface. */
  readonly link: LinkSettings;
}

/**
 * Reads the settings. The arguments of the attachment, `args.cni`, take precedence
 * over everything else.
 *
 * Source: containernetworking/plugins plugins/meta/tuning/tuning.go
 * `parseConf`, with its precedence of MACs.
 *
 * @throws {CniError} 7 if the configuration repeats a sysctl or contains an invalid
 * name or MAC address; 4 if CNI_ARGS does
 */
export function settingsOf(call: Call<TuningConfig>): Settings {
  const { config, args, stdin } = call;
  const { promisc, mtu, allmulti, txQLen, sysctl } = {
    ...config,
    ...config.args?.cni,
    sysctl: { ...config.sysctl, ...config.args?.cni?.sysctl },
  };
  checkRepeatedSysctls(stdin);
  return {
    sysctls: Object.entries(sysctl).map(([key, value]) =>
      sysctlOf(key, value, args.ifName)
    ),
    link: omitAbsent<LinkSettings>({
      mtu: mtu || undefined,
      promisc: promisc || undefined,
      allmulti,
      txQLen,
      mac: macOf(call),
    }),
  };
}

function checkRepeatedSysctls(stdin: Uint8Array): void {
  const document = new TextDecoder().decode(stdin);
  const key = findRepeatedKey(document, ["sysctl"]) ??
    findRepeatedKey(document, ["args", "cni", "sysctl"]);
  if (key === undefined) return;
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `duplicated sysctl keys are not allowed: "${key}"`,
  );
}

/**
 * Reads the MAC address. An empty address in `args.cni` keeps the interface's
 * address, whatever the other settings.
 */
function macOf({ args, config }: Call<TuningConfig>): Mac | undefined {
  const { mac: argument } = config.args?.cni ?? {};
  const others = [
    macInConfig(config.runtimeConfig?.mac),
    macInArgs(args.args),
    macInConfig(config.mac),
  ];
  return argument === ""
    ? undefined
    : firstMac(macInConfig(argument), ...others);
}

/** A string, including the colon if it is a key, or a bracket. */
const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/g;

/**
 * Finds a repeated key.
 *
 * @param document Valid JSON
 * @param path The keys that lead to the object, case-insensitive
 */
export function findRepeatedKey(
  document: string,
  path: readonly string[],
): string | undefined {
  const seen = new Set<string>();
  /** The last key of each open object; "" in arrays. */
  const keys: string[] = [];
  for (const [token, text, colon] of document.matchAll(TOKEN)) {
    if (text === undefined) {
      if (token === "{" || token === "[") keys.push("");
      else keys.pop();
    } else if (colon !== undefined) {
      const key: string = JSON.parse(text);
      keys[keys.length - 1] = key;
      if (keys.length !== path.length + 1 || !isUnder(keys, path)) continue;
      if (seen.has(key)) return key;
      seen.add(key);
    }
  }
  return undefined;
}

function isUnder(keys: readonly string[], path: readonly string[]): boolean {
  return path.every((key, at) => keys[at]?.toLowerCase() === key.toLowerCase());
}
