/**
 * The names of a pod's interfaces, which must be free in its sandbox.
 *
 * @module
 */

import { checkInterfaceName, type CmdArgs } from "../../../cni/call/args.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../../base/error.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { interfaceNameOf } from "../model/attachment.ts";
import { type Delegate, isList } from "../model/delegate.ts";

/** The interface name of a delegate cannot be used. */
export class InterfaceNameError extends CniError {
  /** Index of the delegate, from 0. */
  readonly index: number;

  /**
   * Creates an error with the Go version's text.
   *
   * @param index The delegate, from 0
   * @param ifName The name
   * @param reason The reason
   */
  constructor(
    delegates: readonly Delegate[],
    index: number,
    ifName: string,
    reason: CniError,
  ) {
    const network = JSON.stringify(nameOf(delegates[index]));
    super(
      reason.code,
      `DelegateAdd: cannot set ${network} interface name to ` +
        `${JSON.stringify(ifName)}: ${reason.message}`,
      { details: reason.details },
    );
    this.index = index;
  }
}

/** Returns the type of a single plugin, or the name of a list. */
function nameOf(delegate: Delegate | undefined): string {
  if (delegate === undefined) return "";
  const { conf } = delegate;
  return isList(conf) ? conf.name : conf.plugin.type;
}

/**
 * Checks that each delegate's interface name is valid, unique, and unused in the
 * sandbox.
 *
 * This precedes any change, so that nothing needs to be undone: DEL of a refused
 * delegate would remove the existing link with that name.
 *
 * Source: multus-cni pkg/multus `validateIfName`.
 *
 * @param listNames Lists the names in use in a namespace
 * @throws {InterfaceNameError} 4 for an unusable name, 8 if the namespace cannot
 *   be entered
 */
export function checkInterfaceNames(
  delegates: readonly Delegate[],
  { ifName, netns }: Pick<CmdArgs, "ifName" | "netns">,
  listNames: (netns: string) => Iterable<string> = listInterfaceNames,
): void {
  const names = delegates.map((_, index) =>
    interfaceNameOf(delegates, index, ifName)
  );
  let taken: Set<string> | undefined;
  for (const [index, name] of names.entries()) {
    const refuse = (reason: CniError): InterfaceNameError =>
      new InterfaceNameError(delegates, index, name, reason);
    try {
      checkInterfaceName(name);
      taken ??= new Set(listNames(netns));
    } catch (error) {
      throw refuse(toCniError(error));
    }
    if (taken.has(name)) throw refuse(alreadyExists(name));
    if (names.indexOf(name) < index) {
      throw refuse(alreadyExists(name, delegates[names.indexOf(name)]));
    }
  }
}

function alreadyExists(name: string, other?: Delegate): CniError {
  return new CniError(
    ErrorCode.InvalidEnvironment,
    `validateIfName: interface name ${name} already exists`,
    { details: other ? `it is the interface of "${other.name}"` : "" },
  );
}

/**
 * Lists the names of the links in a namespace, with one dump.
 *
 * @throws {CniError} 8 if the namespace cannot be entered
 */
export function listInterfaceNames(netns: string): string[] {
  try {
    using sandbox = Rtnl.open(netns);
    return sandbox.link.list().map(({ name }) => name);
  } catch (error) {
    throw new CniError(
      ErrorCode.InvalidNetns,
      `validateIfName: no net namespace ${netns} found: ${
        describeError(error)
      }`,
    );
  }
}
