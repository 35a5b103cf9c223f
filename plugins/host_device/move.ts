/**
 * Moves a device between the host and a container.
 *
 * The kernel does what one request asks for without interruption, so a killed
 * process leaves the device in one of two places: on the host, or in the
 * container, where its alias is the name that it has on the host.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Rollback } from "../../cni/call/rollback.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { named } from "../parts/configure_link.ts";
import { readablePrevResult } from "../parts/prev_result.ts";
import { type Device, isInterfaceName, lostNameOf } from "./find_device.ts";
import type { HostDeviceConfig } from "./schema.ts";

/** Both ends of a move. */
export interface Places {
  /** The host's namespace. */
  readonly host: Rtnl;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  readonly call: Call<HostDeviceConfig>;
}

/**
 * Moves a device into the container, down, under the container's name for it.
 *
 * The kernel moves, renames and sets the alias in one request. So the host never
 * sees the new name, and needs no namespace in between, which would take
 * virtual links with it if the plugin were killed.
 *
 * @throws {Error} If the kernel refuses
 */
export function moveIn(
  places: Places,
  device: Device,
  rollback: Rollback,
): Link {
  const { host, sandbox, call: { args: { ifName } } } = places;
  const { link, home } = device;
  rollback.onFailure(`take "${home}" back`, () => takeBack(places, device));
  return named(`move "${link.name}" into the container`, () => {
    const { netns } = sandbox;
    host.link.set(link.index, { netns, name: ifName, alias: home });
    return sandbox.link.get(ifName);
  });
}

/** Undoes a move, wherever it ended, and restores what the kernel forgets. */
function takeBack(places: Places, { link, home }: Device): void {
  const { host, sandbox, call: { args: { ifName } } } = places;
  let { name } = link;
  if (host.link.find(name)?.index !== link.index) {
    const moved = sandbox.link.list().find((one) =>
      one.name === ifName && one.alias === home ||
      one.name === name && one.mac?.hex === link.mac?.hex
    );
    // Another ADD has moved it.
    if (moved === undefined) return;
    name = moveOut(places, moved, home);
  }
  const { isUp, masterIndex } = link;
  const alias = name === home ? link.alias ?? "" : home;
  host.link.set(host.link.get(name).index, { isUp, masterIndex, alias });
}

/**
 * Moves a device to the host, down, with the name that it had there. If another
 * link has the name, the device gets a free one, and keeps its own as its alias.
 *
 * @returns The name that it has on the host
 * @throws {Error} If the kernel refuses
 */
export function moveOut(
  { host, sandbox, call: { log } }: Places,
  { index, name }: Link,
  home: string,
): string {
  return named(`move "${name}" to the host as "${home}"`, () => {
    const isFree = host.link.find(home) === undefined;
    const target = isFree ? home : findFreeName(host);
    // Before Linux 6.2, only links that are down can be renamed.
    sandbox.link.set(index, { isUp: false });
    // Renamed first: the host's programs do not see the container's name.
    if (isFree && sandbox.link.find(home) === undefined) {
      sandbox.link.set(index, { name: home });
    }
    const { netns } = host;
    const alias = isFree ? "" : home;
    sandbox.link.set(index, { netns, name: target, alias });
    if (!isFree) {
      const message = "The device's name is taken on the host";
      log.warn(message, { device: home, name: target });
    }
    return target;
  });
}

/**
 * Returns a name like the kernel's for a device of a namespace that ends, if its
 * name is taken.
 */
function findFreeName(host: Rtnl): string {
  const taken = host.link.list().map(({ name }) => name);
  let number = 0;
  while (taken.includes(`dev${number}`)) number++;
  return `dev${number}`;
}

/**
 * Finds the attachment's device in the container, ours or the Go plugin's. A
 * link of that name may be another attachment's: a DEL also follows an ADD that
 * failed because the name was taken.
 *
 * @param isOnHost Reports whether the host has the configured device
 */
export function findMoved(
  sandbox: Rtnl,
  call: Call<HostDeviceConfig>,
  isOnHost: () => boolean,
): Device | undefined {
  const link = sandbox.link.find(call.args.ifName);
  if (link !== undefined && isMoved(sandbox, link, call, isOnHost)) {
    return { link, home: homeOf(link, call) };
  }
  const others = sandbox.link.list();
  // An interrupted DEL has already given it its name back.
  const renamed = others.find((link) =>
    link.alias === link.name && isKnown(link, call)
  );
  if (renamed !== undefined) return { link: renamed, home: renamed.name };
  if (link !== undefined) return undefined;
  // Its container has renamed it. Only the result tells whose device it is.
  const own = others.find((link) =>
    isInterfaceName(link.alias) && isInResult(link, call)
  );
  return own && { link: own, home: homeOf(own, call) };
}

function isMoved(
  sandbox: Rtnl,
  link: Link,
  call: Call<HostDeviceConfig>,
  isOnHost: () => boolean,
): boolean {
  if (isKnown(link, call)) return true;
  if (!isInterfaceName(link.alias)) return false;
  const { device } = call.config;
  return device ? sandbox.link.find(device)?.index === link.index : !isOnHost();
}

/** Reports whether the configuration or the result shows that a link is the device. */
function isKnown(link: Link, call: Call<HostDeviceConfig>): boolean {
  const { device, hwaddr } = call.config;
  return device !== undefined && link.alias === device ||
    hasMac(link, hwaddr) || isInResult(link, call);
}

/** Reports whether the result has the link's MAC for the attachment. */
function isInResult(link: Link, call: Call<HostDeviceConfig>): boolean {
  const { ifName } = call.args;
  const interfaces = readablePrevResult(call)?.interfaces ?? [];
  return interfaces.some(({ name, sandbox, mac }) =>
    sandbox && name === ifName && hasMac(link, mac)
  );
}

function hasMac({ mac }: Link, text?: string): boolean {
  return mac !== undefined && mac.hex === hexOf(text);
}

/** Returns the digits of a MAC in any form. */
function hexOf(mac = ""): string {
  return mac.replaceAll(/[:.-]/g, "").toLowerCase();
}

/** Returns the name that the device had on the host. */
function homeOf(
  { alias, name }: Link,
  { config: { device } }: Call<HostDeviceConfig>,
): string {
  return [alias, device].find(isInterfaceName) ?? name;
}

/**
 * Gives a device its name back that the kernel has returned under another one,
 * because its container has ended. Leaves a device that is in use.
 */
export function restoreName(
  host: Rtnl,
  call: Call<HostDeviceConfig>,
): void {
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
    log.warn("Leaving the device its name", { name, device: alias, problem });
  }
}
