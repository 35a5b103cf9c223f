/**
 * Whether the delegates can have the interface names that they shall have.
 *
 * @module
 */

import { checkInterfaceName, type CmdArgs } from "../../cni/args.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../../cni/error.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { type Delegate, isList } from "./networks/delegate.ts";
import { interfaceNameOf } from "./delegate_conf.ts";

/** A name that a delegate cannot have. */
export class InterfaceNameError extends CniError {
  /** Which delegate, from 0. */
  readonly index: number;

  /**
   * Makes an error in the words of the Go version.
   *
   * @param index Which delegate, from 0
   * @param ifName The name
   * @param reason Why it cannot have it
   */
  constructor(
    delegates: readonly Delegate[],
    index: number,
    ifName: string,
    reason: CniError,
  ) {
    const network = JSON.stringify(describe(delegates[index]));
    super(
      reason.code,
      `DelegateAdd: cannot set ${network} interface name to ` +
        `${JSON.stringify(ifName)}: ${reason.message}`,
      { details: reason.details },
    );
    this.index = index;
  }
}

/** Returns the type of a bare plugin; of a list, which has none, the name. */
function describe(delegate: Delegate | undefined): string {
  if (delegate === undefined) return "";
  const { conf } = delegate;
  return isList(conf) ? conf.name : conf.plugin.type;
}

/**
 * Checks that each delegate can have its interface name: it is a name, no
 * delegate before has it, and the sandbox does not have it yet.
 *
 * All are checked before anything is made, so that what fails here need not be
 * undone: DEL of such a delegate would remove the link that has the name.
 *
 * Source: multus-cni pkg/multus `validateIfName`.
 *
 * @param listNames Lists the names that the namespace has
 * @throws {InterfaceNameError} 4 for a name that cannot be had, 8 if the
 *   namespace cannot be entered
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
 * Lists the names of the links in a namespace, by one dump.
 *
 * @throws {CniError} 8 if it is no network namespace that can be entered
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
