/**
 * DEL: returns the device of an attachment to the host.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import { heldNetnsTest } from "../../cni/call/netns_existence.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { hasMac, readablePrevResult } from "../parts/sandbox/prev_result.ts";
import { findSandbox } from "../parts/sandbox/sandbox.ts";
import { isInterfaceName, lostNameOf } from "./find_device.ts";
import { deleteRules } from "./host_network.ts";
import {
  type ContainerLinks,
  findInContainer,
  isPhysical,
  listCandidates,
  readContainerLinks,
} from "./identity.ts";
import { type HostState, moveOut, reclaim } from "./move.ts";
import { type DeviceRecord, isSandboxOf, RecordFile } from "./record.ts";
import type { HostDeviceConfig } from "./schema.ts";

/**
 * Returns the device to the host, if the container or the kernel has it, and removes
 * its record. Keeps the record of a missing device with hardware, because the kernel
 * returns the device when its namespace ends, and the next ADD or GC restores it.
 * Keeps the record of a virtual device if its namespace exists and is not the
 * namespace of this call.
 *
 * @param isOnHost Reports whether the host has the configured device
 * @throws {Error} If the kernel refuses
 */
export function returnToHost(
  call: Call<HostDeviceConfig>,
  isOnHost: (host: Rtnl) => boolean,
): void {
  using host = Rtnl.open(call.hostNetns);
  using sandbox = findSandbox(call);
  const file = new RecordFile(call);
  const record = file.read();
  if (record === undefined) {
    if (sandbox === undefined) return restoreName(host, call);
    const device = findUnrecorded(
      withoutRecorded(
        readContainerLinks(sandbox, host),
        file.listOthers(sandbox),
      ),
      call,
      () => isOnHost(host),
    );
    if (device === undefined) return;
    moveOut({ host, sandbox, call }, device.link, device.state);
    return;
  }
  const isRight = sandbox !== undefined && isSandboxOf(record, sandbox);
  const link = isRight
    ? findInContainer(sandbox, host, record, () => file.listOthers(sandbox))
    : undefined;
  if (link !== undefined && sandbox !== undefined) {
    const { hostNetwork } = record;
    if (hostNetwork !== undefined) deleteRules(sandbox, hostNetwork);
    moveOut({ host, sandbox, call }, link, record);
  } else if (
    !reclaim({ host, log: call.log }, record) &&
    (isPhysical(record) || !isRight && heldNetnsTest()(record.netns.file))
  ) {
    const { name: device } = record;
    call.log.warn(
      "The kernel has not returned the device yet: keeping its record",
      { device },
    );
    return;
  }
  file.remove();
}

/** A device without a record, and its known state on the host. */
interface Unrecorded {
  readonly link: Link;
  readonly state: HostState;
}

/**
 * Finds a device that the Go plugin or an early build has moved, without a record.
 * The container can choose its name, alias and MAC address, so the kernel must show
 * that the link is from the host. A link with the name CNI_IFNAME might belong to a
 * different attachment, because a DEL also follows an ADD that failed because the
 * name was taken.
 */
function findUnrecorded(
  { links: all, hostNsid }: ContainerLinks,
  call: Call<HostDeviceConfig>,
  isOnHost: () => boolean,
): Unrecorded | undefined {
  const links = all.filter((link) => isFromHost(link, hostNsid));
  const own = links.find((link) => isOnBus(link, call)) ??
    findNamed(links, call, isOnHost) ??
    // An interrupted DEL has already restored its name.
    links.find((link) => link.alias === link.name && isKnown(link, call)) ??
    findRenamed(links, call, isOnHost);
  if (own === undefined) return undefined;
  const names = [call.config.device, own.alias];
  // This must not be the container's name.
  const name = names.find(isInterfaceName) ?? "dev0";
  const settings = { promisc: false, allmulti: false };
  return { link: own, state: { name, alternativeNames: [], settings } };
}

/**
 * Reports whether a link of the container is from the host: it has hardware, or its
 * peer or lower link is on the host. A container cannot create such a link.
 */
function isFromHost(link: Link, hostNsid: number | undefined): boolean {
  return isPhysical(link)
    ? link.mac !== undefined
    : link.linkNsid !== undefined && link.linkNsid === hostNsid;
}

/** Omits links that can be devices of other attachments' records. */
function withoutRecorded(
  inside: ContainerLinks,
  others: readonly DeviceRecord[],
): ContainerLinks {
  const recorded = others.flatMap((record) => listCandidates(inside, record));
  const links = inside.links.filter((link) => !recorded.includes(link));
  return { ...inside, links };
}

/** Reports whether the configuration names the link's device on its bus. */
function isOnBus(
  { parent }: Link,
  { config }: Call<HostDeviceConfig>,
): boolean {
  const { pciBusID, kernelpath, runtimeConfig } = config;
  const names = [
    pciBusID,
    runtimeConfig?.deviceID,
    kernelpath?.split("/").pop(),
  ];
  return parent !== undefined && names.includes(parent.name);
}

/** Finds the device under the name of the interface. */
function findNamed(
  links: readonly Link[],
  call: Call<HostDeviceConfig>,
  isOnHost: () => boolean,
): Link | undefined {
  const link = links.find(({ name }) => name === call.args.ifName);
  return link !== undefined && isMoved(link, links, call, isOnHost)
    ? link
    : undefined;
}

/**
 * Finds the device that its container has renamed. Only the result identifies its
 * owner: by its MAC address, or because the container has a single device with
 * hardware, which the host lacks.
 */
function findRenamed(
  links: readonly Link[],
  call: Call<HostDeviceConfig>,
  isOnHost: () => boolean,
): Link | undefined {
  const { ifName } = call.args;
  const { interfaces = [] } = readablePrevResult(call) ?? {};
  const isListed = interfaces.some(({ name, sandbox }) =>
    name === ifName && sandbox
  );
  if (!isListed || links.some(({ name }) => name === ifName)) return undefined;
  const known = links.find((link) => isInResult(link, call));
  if (known !== undefined) return known;
  const [only, ...others] = links.filter(isPhysical);
  return others.length === 0 && !isOnHost() ? only : undefined;
}

function isMoved(
  link: Link,
  links: readonly Link[],
  call: Call<HostDeviceConfig>,
  isOnHost: () => boolean,
): boolean {
  if (isKnown(link, call)) return true;
  if (!isInterfaceName(link.alias)) return false;
  const { device } = call.config;
  return device
    ? links.find(({ name }) => name === device)?.index === link.index
    : !isOnHost();
}

/** Reports whether the configuration or the result shows that a link is the device. */
function isKnown(link: Link, call: Call<HostDeviceConfig>): boolean {
  const { device, hwaddr } = call.config;
  return device !== undefined && link.alias === device ||
    hasMac(link, hwaddr) || isInResult(link, call);
}

/** Reports whether the result contains the link's MAC address for the attachment. */
function isInResult(link: Link, call: Call<HostDeviceConfig>): boolean {
  const { ifName } = call.args;
  const interfaces = readablePrevResult(call)?.interfaces ?? [];
  return interfaces.some(({ name, sandbox, mac }) =>
    sandbox && name === ifName && hasMac(link, mac)
  );
}

/**
 * Restores the name of a device without a record that the kernel has returned under a
 * different name, because its container has ended. Skips a device that is in use.
 */
function restoreName(host: Rtnl, call: Call<HostDeviceConfig>): void {
  const { log, args: { ifName } } = call;
  const link = host.link.list().find((link) =>
    lostNameOf(link, ifName) !== undefined && isKnown(link, call)
  );
  if (link?.alias === undefined) return;
  const { index, name, alias } = link;
  try {
    host.link.set(index, { name: alias, alias: "" });
  } catch (error) {
    const problem = describeError(error);
    log.warn("Keeping the device's name", { name, device: alias, problem });
  }
}
