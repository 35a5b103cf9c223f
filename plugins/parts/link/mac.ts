/**
 * The MAC that a configuration or a runtime asks for.
 *
 * @module
 */

import { loadArgs } from "../../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { Mac } from "../../../net/mac.ts";

/** A place that may have a MAC, and the error code if that one is invalid. */
export type MacSource = readonly [text: string | undefined, code: number];

/** Returns the source for a key of the configuration. */
export function macInConfig(text: string | undefined): MacSource {
  return [text, ErrorCode.InvalidNetworkConfig];
}

/**
 * Returns the source for `MAC` in CNI_ARGS.
 *
 * @throws {CniError} 4 if CNI_ARGS is invalid or has other keys
 */
export function macInArgs(args: string): MacSource {
  const { MAC } = loadArgs<{ MAC: string }>(args, { MAC: String });
  return [MAC, ErrorCode.InvalidEnvironment];
}

/**
 * Reads the first MAC that is given.
 *
 * @param sources In order of precedence
 * @throws {CniError} With the source's code if an interface cannot have it
 */
export function firstMac(...sources: readonly MacSource[]): Mac | undefined {
  const [text, code] = sources.find(([text]) => text) ?? [];
  if (!text || code === undefined) return undefined;
  try {
    return checkedMac(Mac.parse(text));
  } catch (cause) {
    throw new CniError(code, `Cannot use MAC "${text}"`, { cause });
  }
}

/**
 * Rejects two kinds of MACs that the kernel would refuse only after all other
 * steps.
 */
function checkedMac(mac: Mac): Mac {
  if (mac.isMulticast) throw new RangeError("it is a multicast address");
  if (/^0*$/.test(mac.hex)) throw new RangeError("it is all zeros");
  return mac;
}
