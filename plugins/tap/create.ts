/**
 * Creates the tap device.
 *
 * @module
 */

import { invalidConfig } from "../../base/error.ts";
import type { Rollback } from "../../base/rollback.ts";
import type { Call } from "../../cni/plugin.ts";
import { isErrno } from "../../ffi/errno.ts";
import { isBridge, type Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { createTap, type NewTap } from "../../ffi/tun.ts";
import type { Mac } from "../../net/mac.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { withAction } from "../parts/link/configure_link.ts";
import { firstNameOf, nameSandboxLink } from "../parts/link/sandbox_link.ts";
import type { TapConfig } from "./schema.ts";
import { createTapAs } from "./selinux.ts";

/** The kernel's kind of tap devices. */
export const KIND = "tun";

/** An ADD in progress. */
interface Adding {
  readonly call: Call<TapConfig>;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  readonly rollback: Rollback;
}

/**
 * Creates the device, down, and deletes it if ADD fails. Replaces the device of a
 * killed ADD of the same attachment.
 *
 * @param mac Random if undefined
 * @throws {CniError} 7 if the container does not have the bridge
 * @throws {Error} If the kernel refuses
 */
export function createTapLink(
  { call, sandbox, rollback }: Adding,
  mac: Mac | undefined,
): Link {
  const { mtu, bridge } = call.config;
  const attachment = attachmentOf(call);
  const { ifName } = attachment;
  const master = bridge ? getBridge(sandbox, bridge) : undefined;
  const name = firstNameOf(attachment);
  const { index } = withAction(`create tap "${ifName}"`, () => {
    rollback.onFailure(`delete "${name}"`, () => {
      sandbox.link.ensureGone(name);
    });
    return createUnnamed(sandbox, name, call.config);
  });
  rollback.onFailure(`delete "${ifName}"`, () => {
    sandbox.link.ensureGone(index);
  });
  const details = [
    ...mac === undefined ? [] : [` with MAC ${mac}`],
    ...mtu ? [` with MTU ${mtu}`] : [],
  ].join("");
  withAction(`set up tap "${ifName}"${details}`, () => {
    nameSandboxLink(sandbox, index, attachment);
    sandbox.link.set(index, {
      mac,
      mtu: mtu || undefined,
      masterIndex: master?.index,
    });
  });
  return sandbox.link.get(index);
}

function getBridge(sandbox: Rtnl, name: string): Link {
  const link = sandbox.link.find(name);
  if (link === undefined) {
    throw invalidConfig(`failed to get bridge ${name}: Link not found`);
  }
  if (isBridge(link)) return link;
  throw invalidConfig(`Interface "${name}" of the container is not a bridge`);
}

/**
 * Creates the device with a name that is computed from the attachment. The device of
 * a killed ADD has the same name, and is replaced.
 */
function createUnnamed(
  { netns, link }: Rtnl,
  name: string,
  config: TapConfig,
): Link {
  const { multiQueue = false, owner, group, selinuxContext } = config;
  const wanted: NewTap = { name, isMultiQueue: multiQueue, owner, group };
  const create = (): void =>
    selinuxContext
      ? createTapAs(selinuxContext, netns, wanted)
      : createTap(netns, wanted);
  try {
    create();
  } catch (error) {
    if (!isErrno(error, "EBUSY") || !link.ensureGone(name)) {
      throw error;
    }
    create();
  }
  return link.get(name);
}
