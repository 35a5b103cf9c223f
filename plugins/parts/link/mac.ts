/**
 * The MAC address that a configuration or a runtime requests.
 *
 * @module
 */

import { type CmdArgs, loadArgs } from "../../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { Mac } from "../../../net/mac.ts";

/** A possible source of a MAC address, and the error code if the address is invalid. */
export type MacSource = readonly [text: string | undefined, code: number];

/** Returns the source for a key of the configuration. */
export function macInConfig(text: string | undefined): MacSource {
  return [text, ErrorCode.InvalidNetworkConfig];
}

/**
 * Returns the source for `MAC` in CNI_ARGS.
 *
 * @throws {CniError} 4 if CNI_ARGS is invalid or contains other keys
 */
export function macInArgs(args: string): MacSource {
  const { MAC } = loadArgs<{ MAC: string }>(args, { MAC: String });
  return [MAC, ErrorCode.InvalidEnvironment];
}

/**
 * Reads the first MAC address among sources.
 *
 * @param sources In order of precedence
 * @throws {CniError} With the source's code if an interface cannot have the address
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
 * Reads the requested MAC address. The runtime's address takes precedence over
 * CNI_ARGS, and both over the configuration's address.
 *
 * @throws {CniError} As {@linkcode macInArgs} and {@linkcode firstMac}
 */
export function macOf({ args, config }: {
  readonly args: Pick<CmdArgs, "args">;
  readonly config: {
    readonly mac?: string | undefined;
    readonly runtimeConfig?: { readonly mac?: string | undefined } | undefined;
  };
}): Mac | undefined {
  return firstMac(
    macInConfig(config.runtimeConfig?.mac),
    macInArgs(args.args),
    macInConfig(config.mac),
  );
}

/**
 * Rejects two kinds of MAC addresses that the kernel would refuse only after all
 * other steps.
 */
function checkedMac(mac: Mac): Mac {
  if (mac.isMulticast) throw new RangeError("it is a multicast address");
  if (/^0*$/.test(mac.hex)) throw new RangeError("it is all zeros");
  return mac;
}
