/**
 * Moves a device between the host and a container.
 *
 * The kernel carries out a request without interruption, so a killed process leaves
 * the device either on the host or in the container. The record, which is written
 * before, identifies it.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Log } from "../../base/log/log.ts";
import type { Rollback } from "../../base/rollback.ts";
import { isErrno } from "../../ffi/errno.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { withAction } from "../parts/link/configure_link.ts";
import {
  type LinkSettings,
  readAllSettings,
  restoreSettings,
} from "../parts/link/link_settings.ts";
import { persistentIdOf } from "../parts/sandbox/sandbox.ts";
import { findNetnsId } from "../../cni/call/own_netns.ts";
import type { Device } from "./find_device.ts";
import {
  findInContainer,
  findOnHost,
  identityOf,
  isAlike,
  readContainerLinks,
} from "./identity.ts";
import { type HostNetwork, restoreHostNetwork } from "./host_network.ts";
import type { DeviceRecord, RecordFile } from "./record.ts";
import type { HostDeviceConfig } from "./schema.ts";

/** Both ends of a move. */
export interface Namespaces {
  /** The host's namespace. */
  readonly host: Rtnl;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  readonly call: Call<HostDeviceConfig>;
}

/** The host's namespace, and a log. */
export interface HostOnly {
  readonly host: Rtnl;
  readonly log: Log;
}

/** The record of a move. */
export interface ToRecord {
  readonly file: RecordFile;
  /** The network that the device keeps, and that DEL restores. */
  readonly hostNetwork: HostNetwork | undefined;
}

/**
 * The state of a device on the host: its name, and the settings that the kernel
 * forgets.
 */
export type HostState =
  & Pick<DeviceRecord, "name" | "alias" | "alternativeNames" | "hostNetwork">
  & {
    readonly settings: LinkSettings;
  };

/**
 * Moves a device into the container, down, under the container's name for it.
 *
 * The kernel moves, renames and sets the alias in a single request. So the host never
 * sees the new name, and no intermediate namespace is needed, which would delete
 * virtual links if the plugin were killed. An alternative name that exists in the
 * container is removed first, because the kernel would refuse the move.
 *
 * @throws {CniError} 5 if the record cannot be written
 * @throws {Error} If the kernel refuses
 */
export function moveIn(
  places: Namespaces,
  device: Device,
  { file, hostNetwork }: ToRecord,
  rollback: Rollback,
): Link {
  const { host, sandbox, call: { args: { ifName } } } = places;
  const { link, nameOnHost } = device;
  const record = { ...describeDevice(places, device), hostNetwork };
  rollback.onFailure(`take "${nameOnHost}" back`, () => {
    takeBack(places, link, { record, file });
    // This must not be earlier: if the device cannot be moved back, DEL needs the
    // record.
    file.remove();
  });
  file.write(record);
  return withAction(`move "${link.name}" into the container`, () => {
    const { netns } = sandbox;
    const colliding = link.alternativeNames.filter((name) =>
      name === ifName || sandbox.link.find(name) !== undefined
    );
    host.link.removeAlternativeNames(link.index, colliding);
    const { index: newIndex } = record;
    const change = { netns, newIndex, name: ifName, alias: nameOnHost };
    host.link.set(link.index, change);
    const moved = sandbox.link.get(ifName);
    // Before Linux 5.13, the kernel chooses the index.
    if (moved.index !== newIndex) file.write({ ...record, index: moved.index });
    return moved;
  });
}

function describeDevice(
  { sandbox, call }: Namespaces,
  { link, nameOnHost }: Device,
): DeviceRecord {
  const { alias, alternativeNames } = link;
  const { netns: path } = call.args;
  return {
    ...attachmentOf(call),
    netns: { path, file: findNetnsId(call.args), id: persistentIdOf(sandbox) },
    name: nameOnHost,
    index: chooseIndex(sandbox, link),
    ...identityOf(link),
    isLinkHere: Boolean(link.linkIndex) && link.linkNsid === undefined,
    alias: link.name === nameOnHost ? alias : undefined,
    alternativeNames: [...alternativeNames],
    settings: readAllSettings(link),
  };
}

/**
 * Chooses the index of a device in the container: the host's index, or an index that
 * no link of the host will have.
 */
function chooseIndex(sandbox: Rtnl, { index }: Link): number {
  if (sandbox.link.find(index) === undefined) return index;
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
  return (random >>> 2) | 1 << 29;
}

/**
 * Undoes a move, whatever its state, and restores the settings that the kernel
 * forgets.
 */
function takeBack(
  places: Namespaces,
  before: Link,
  { record, file }: {
    readonly record: DeviceRecord;
    readonly file: RecordFile;
  },
): void {
  const { host, sandbox, call: { log } } = places;
  const { index, isUp, masterIndex, name, alternativeNames } = before;
  const present = host.link.find(index);
  if (present !== undefined && isAlike(present, record)) {
    // It was not moved, and only lost names.
    return addMissingNames({ host, log }, index, alternativeNames);
  }
  const moved = findInContainer(
    sandbox,
    host,
    record,
    () => file.listOthers(sandbox),
  );
  // A different ADD moved it.
  if (moved === undefined) return;
  moveOut(places, moved, record);
  const link = findOnHost(host.link.list(), record);
  if (link === undefined) return;
  const alias = name === record.name ? before.alias ?? "" : record.name;
  host.link.set(link.index, { isUp, masterIndex, alias });
  addMissingNames({ host, log }, link.index, alternativeNames);
}

/** How often to retry while the container changes the device, and to try names. */
const TRIES = 10;

/**
 * Moves a device to the host, down, with the name and the settings that it had there.
 * If a different link has the name, the device gets an unused name, and its own name
 * as its alias.
 *
 * The host never keeps a name that the container chose: alternative names are
 * removed, and the device is renamed in the container. If the container renames it
 * again in between, the device briefly has that name on the host.
 *
 * @throws {Error} If the kernel refuses
 */
export function moveOut(
  places: Namespaces,
  link: Link,
  state: HostState,
): void {
  const { host, sandbox, call: { log } } = places;
  const { index, name } = link;
  withAction(`move "${name}" to the host as "${state.name}"`, () => {
    for (let tries = 1;; tries++) {
      const target = freeNameOf(places, state.name);
      const before = host.link.list().map(({ index }) => index);
      try {
        moveOnce(places, index, target, state);
      } catch (error) {
        const isBack = sandbox.link.find(index) === undefined &&
          finishMove(host, before, link, target);
        if (!isBack && (!isErrno(error, "EEXIST") || tries === TRIES)) {
          throw error;
        }
        if (!isBack) continue;
      }
      const moved = host.link.get(target);
      deleteUpperLinks(places, moved);
      restoreHostState({ host, log }, moved, state);
      if (target === state.name) return;
      const message = "The device's name is taken on the host";
      return log.warn(message, { device: state.name, name: target });
    }
  });
}

/**
 * Deletes the links that the container has created on the device, such as a macvlan.
 * They would remain in the container, which could still send and receive over the
 * device. Once the device has left, the container cannot create any more of them.
 */
function deleteUpperLinks(
  { host, sandbox }: Namespaces,
  { index }: Link,
): void {
  const { links, hostNsid } = readContainerLinks(sandbox, host);
  const upper = links.filter(({ kind, linkIndex, linkNsid }) =>
    // The index of a veth's lower link is the index of its peer.
    kind !== "veth" && linkIndex === index && linkNsid !== undefined &&
    linkNsid === hostNsid
  );
  sandbox.link.ensureAllGone(upper.map(({ index }) => index));
}

function moveOnce(
  places: Namespaces,
  index: number,
  target: string,
  { name: nameOnHost, alias = "" }: HostState,
): void {
  const { host: { netns }, sandbox: { link } } = places;
  // Before Linux 6.2, only links that are down can be renamed.
  link.set(index, { isUp: false });
  link.removeAlternativeNames(index, link.get(index).alternativeNames);
  // The device is renamed first, so that the host's programs do not see the
  // container's name.
  const holder = link.find(target);
  const name = holder === undefined || holder.index === index
    ? target
    : freeNameOf(places, "");
  link.set(index, { name });
  const ownAlias = target === nameOnHost ? alias : nameOnHost;
  link.set(index, { netns, name: target, alias: ownAlias });
}

/**
 * Completes a move that the container has disturbed after the device had left the
 * container: the device has the target as an alternative name.
 *
 * @param before The earlier indexes of the host's links
 * @returns Whether the device is on the host
 */
function finishMove(
  { link }: Rtnl,
  before: readonly number[],
  { kind }: Link,
  target: string,
): boolean {
  const come = link.list().filter((one) =>
    !before.includes(one.index) && one.kind === kind
  );
  const [moved, ...others] = come;
  if (moved === undefined || others.length > 0) return false;
  link.removeAlternativeNames(moved.index, moved.alternativeNames);
  link.set(moved.index, { name: target });
  return true;
}

/**
 * Returns a name that is unused at both ends: the wanted name if it is unused on the
 * host; otherwise a name like the kernel's names for devices of deleted namespaces. A
 * container can use a million names, so after the first attempt, numbers are random.
 *
 * @throws {Error} If no name is unused, which cannot happen by chance
 */
function freeNameOf({ host, sandbox }: Namespaces, wanted: string): string {
  if (wanted !== "" && host.link.find(wanted) === undefined) return wanted;
  const isTaken = (name: string): boolean =>
    [host, sandbox].some(({ link }) => link.find(name) !== undefined);
  for (const number of [0, ...crypto.getRandomValues(new Uint32Array(TRIES))]) {
    if (!isTaken(`dev${number}`)) return `dev${number}`;
  }
  throw new Error(`each of ${TRIES + 1} names is taken`);
}

/** Restores the earlier state of the host's device: settings and alternative names. */
function restoreHostState(
  places: HostOnly,
  link: Link,
  state: HostState,
): void {
  const { host, log } = places;
  for (const refusal of restoreSettings(host, link.index, state.settings)) {
    log.warn("Cannot restore", { problem: describeError(refusal) });
  }
  removeForeignNames(host, link, state);
  addMissingNames(places, link.index, state.alternativeNames);
  const { hostNetwork } = state;
  if (hostNetwork !== undefined) {
    restoreHostNetwork(host, link, hostNetwork, log);
  }
}

function removeForeignNames(host: Rtnl, link: Link, state: HostState): void {
  const foreign = link.alternativeNames
    .filter((name) => !state.alternativeNames.includes(name));
  host.link.removeAlternativeNames(link.index, foreign);
}

function addMissingNames(
  { host, log }: HostOnly,
  index: number,
  names: readonly string[],
): void {
  const present = host.link.get(index).alternativeNames;
  for (const name of names) {
    if (present.includes(name)) continue;
    try {
      host.link.addAlternativeNames(index, [name]);
    } catch (error) {
      const problem = describeError(error);
      log.warn("Cannot restore an alternative name", { name, problem });
    }
  }
}

/**
 * Restores a device that the kernel has returned to the host because its container
 * has ended: its name, settings and alternative names. Keeps the name of a device
 * that is in use.
 *
 * @returns Whether the host has the device
 * @throws {Error} If the kernel refuses
 */
export function reclaim(
  places: HostOnly,
  record: DeviceRecord,
): boolean {
  const { link: links } = places.host;
  const link = findOnHost(links.list(), record);
  if (link === undefined) return false;
  try {
    restoreReturned(places, link, record);
    return true;
  } catch (error) {
    // Devices can disappear, such as virtual functions whose number is changed.
    if (isErrno(error, "ENODEV") && links.find(link.index) === undefined) {
      return false;
    }
    throw error;
  }
}

function restoreReturned(
  places: HostOnly,
  link: Link,
  record: DeviceRecord,
): void {
  const { host, log } = places;
  const { index, name, isUp } = link;
  if (isUp) return addMissingNames(places, index, record.alternativeNames);
  const { name: device, alias = "" } = record;
  try {
    removeForeignNames(host, link, record);
    host.link.set(index, { name: device, alias });
  } catch (error) {
    const problem = describeError(error);
    log.warn("Keeping the device's name", { name, device, problem });
  }
  restoreHostState(places, host.link.get(index), record);
}
