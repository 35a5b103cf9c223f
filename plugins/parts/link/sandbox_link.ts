/**
 * The interface of plugins that create a single link, in the sandbox, such as macvlan
 * and dummy.
 *
 * The link first has a name that is computed from the attachment. It gets the
 * interface's name together with an alias that names its attachment. Therefore
 * neither a killed ADD, nor a DEL after an ADD that failed because the interface's
 * name was taken, can confuse it with a different link.
 *
 * @module
 */

import { CniError } from "../../../base/error.ts";
import {
  type Rollback,
  type TearDownStep,
  tryAll,
} from "../../../base/rollback.ts";
import type { Call } from "../../../cni/plugin.ts";
import type { Result } from "../../../cni/result/result.ts";
import { isAtLeast } from "../../../cni/version.ts";
import { isErrno } from "../../../ffi/errno.ts";
import type { Link, NewLinkInNetns } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { aliasOf, attachmentOf, isOfAnother } from "../owner/attachment.ts";
import type { Attachment } from "../../../cni/config/types.ts";
import {
  hasAnyAddress,
  hasMac,
  isOfAnotherPod,
  readablePrevResult,
  SHARED_MAC,
} from "../sandbox/prev_result.ts";
import { checkIfNameIsFree, findSandbox, pathOf } from "../sandbox/sandbox.ts";
import { withRelease } from "../address/sandbox_addresses.ts";
import { stableName } from "../owner/stable_name.ts";
import { describeLink } from "./describe_link.ts";

/** An ADD in progress. */
export interface AddingLink {
  readonly call: Pick<Call, "network" | "args" | "linkDeletion">;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  /** Collects the undo of every step. */
  readonly rollback: Rollback;
}

/** The link to create. */
export type NewSandboxLink = Omit<NewLinkInNetns, "name" | "netns">;

/**
 * Creates the interface, down, and deletes it if ADD fails. Replaces the link of a
 * killed ADD of the same attachment.
 *
 * @param creator The namespace of the lower link, or the sandbox
 * @throws {CniError} 4 if the interface's name was taken in between
 * @throws {Error} If the kernel refuses
 */
export function createSandboxLink(
  creator: Rtnl,
  { call, sandbox, rollback }: AddingLink,
  wanted: NewSandboxLink,
): Link {
  const attachment = attachmentOf(call);
  const { ifName: name } = attachment;
  const firstName = firstNameOf(attachment);
  // The name is used until the index is known, because the request can fail after the
  // kernel has created the link.
  let created: string | number = firstName;
  rollback.onFailure(`delete "${name}"`, () => {
    sandbox.link.ensureGone(created);
  });
  try {
    addUnlessLeft(sandbox, firstName, () => {
      const { netns } = sandbox;
      creator.link.addElsewhere({ ...wanted, name: firstName, netns });
    });
    const link = sandbox.link.get(firstName);
    created = link.index;
    nameSandboxLink(sandbox, link.index, attachment);
    return { ...link, name, alias: aliasOf(attachment) };
  } catch (cause) {
    if (cause instanceof CniError) throw cause;
    throw new Error(`Cannot create ${wanted.info.kind} "${name}"`, { cause });
  }
}

/** Adds a link. An existing link with the name remains from a killed ADD. */
function addUnlessLeft({ link }: Rtnl, name: string, add: () => void): void {
  try {
    add();
  } catch (error) {
    if (!isErrno(error, "EEXIST") || !link.ensureGone(name)) throw error;
    add();
  }
}

/**
 * Sets the interface's name and the attachment's alias of a link in the sandbox, with
 * a single request.
 *
 * @throws {CniError} 4 if the name was taken in between
 * @throws {NetlinkError} If the kernel refuses
 */
export function nameSandboxLink(
  sandbox: Rtnl,
  index: number,
  attachment: Attachment,
): void {
  const { ifName: name } = attachment;
  try {
    sandbox.link.set(index, { name, alias: aliasOf(attachment) });
  } catch (error) {
    if (isErrno(error, "EEXIST")) checkIfNameIsFree(sandbox, name);
    throw error;
  }
}

/**
 * Names the link until it gets the interface's name. No link of the host has such a
 * name.
 */
export function firstNameOf(
  { network, containerId, ifName }: Attachment,
): string {
  return stableName("cni", network, containerId, ifName);
}

/**
 * Builds the result, which contains only the interface, with all addresses.
 *
 * @param lease Addresses and routes
 */
export function resultOf(
  { args }: Pick<Call, "args">,
  link: Link,
  lease: Result,
): Result {
  return {
    ...lease,
    interfaces: [{ ...describeLink(link), sandbox: args.netns }],
    ips: lease.ips.map((ip) => ({ ...ip, interface: 0 })),
  };
}

/**
 * DEL: deletes the interface, even if the Go plugin created it, and releases the
 * addresses. Succeeds even if objects are missing.
 *
 * @param kind The kind of link that the plugin creates
 * @param more Steps after the link's deletion, before the addresses' release
 * @throws {CniError} 11 or 999 if the sandbox exists and cannot be opened
 * @throws {Error} If the kernel or the IPAM plugin refuses
 */
export async function detach(
  call: Call,
  kind: string,
  ...more: readonly TearDownStep[]
): Promise<void> {
  const unlink: TearDownStep = [
    `delete interface "${call.args.ifName}"`,
    () => deleteSandboxLink(call, kind),
  ];
  await tryAll(withRelease(call, [unlink, ...more], unlink));
}

async function deleteSandboxLink(call: Call, kind: string): Promise<void> {
  using sandbox = findSandbox(call);
  if (sandbox === undefined) return;
  const own = await findOwnLinks(sandbox, call, kind);
  if (own.length === 0) return;
  const { deleteNow } = await import("./delete_links.ts");
  const { linkDeletion } = call;
  await deleteNow(own, { linkDeletion, hostNetns: pathOf(sandbox.netns) });
}

/**
 * Finds the attachment's links: the interface, even if its container changed its name
 * and MAC address, and an interface that a killed ADD has not renamed yet. Other
 * links might have that name as well: the container can give it to its loopback,
 * which cannot be deleted.
 */
async function findOwnLinks(
  sandbox: Rtnl,
  call: Call,
  kind: string,
): Promise<Link[]> {
  const attachment = attachmentOf(call);
  const { ifName } = attachment;
  const firstName = firstNameOf(attachment);
  const alias = aliasOf(attachment);
  const links = sandbox.link.list();
  const own = links.filter((link) =>
    link.kind === kind && (link.name === firstName || link.alias === alias)
  );
  if (own.some(({ name }) => name !== firstName)) return own;
  const named = links.find((link) => link.name === ifName);
  const isNamed = named !== undefined && !own.includes(named) &&
    await isOwn(sandbox, named, call, kind);
  const found = isNamed ? named : findByResult(sandbox, links, call, kind);
  return found === undefined ? own : [...own, found];
}

/**
 * Reports whether a link with the interface's name belongs to the attachment. The Go
 * plugins' links have no alias. Since 0.4.0, a prevResult shows whether an ADD has
 * succeeded. If the runtime has lost it, the leased addresses show it.
 */
async function isOwn(
  sandbox: Rtnl,
  link: Link,
  call: Call,
  kind: string,
): Promise<boolean> {
  if (link.kind !== kind || isOfAnother(link, attachmentOf(call))) return false;
  if (!isAtLeast(call.cniVersion, "0.4.0")) return true;
  const prevResult = readablePrevResult(call);
  if (prevResult === undefined) {
    const { hasLeasedAddresses } = await import("./leased_link.ts");
    return await hasLeasedAddresses(call, sandbox, link);
  }
  const isListed = prevResult.interfaces
    .some(({ name, sandbox }) => name === link.name && sandbox);
  return isListed && !isOfAnotherPod(sandbox, call);
}

/**
 * Finds an interface whose name or alias the container has changed, or the Go
 * plugin's interface, by its IP addresses and MAC address in prevResult.
 */
function findByResult(
  sandbox: Rtnl,
  links: readonly Link[],
  call: Call,
  kind: string,
): Link | undefined {
  const { interfaces = [], ips = [] } = readablePrevResult(call) ?? {};
  const position = interfaces.findIndex(({ name, sandbox }) =>
    name === call.args.ifName && sandbox
  );
  const expected = interfaces[position];
  if (expected === undefined) return undefined;
  const addresses = ips.filter((ip) => ip.interface === position);
  const others = links.filter((link) =>
    link.kind === kind && !isOfAnother(link, attachmentOf(call))
  );
  return others.find((link) => hasAnyAddress(sandbox, link, addresses)) ??
    others.find((link) =>
      !SHARED_MAC.includes(kind) && hasMac(link, expected.mac)
    );
}
