/**
 * Finds the device that a configuration names.
 *
 * @module
 */

import { checkInterfaceName } from "../../cni/call/args.ts";
import { CniError, ErrorCode, invalidConfig } from "../../base/error.ts";
import { exists, ifPossible } from "../../base/files/io.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Mac } from "../../net/mac.ts";
import type { HostDeviceConfig } from "./schema.ts";

/** The keys that name the device. The first key that is set counts. */
export interface DeviceKeys {
  readonly device: string | undefined;
  readonly hwaddr: string | undefined;
  readonly kernelpath: string | undefined;
  readonly pciAddress: string | undefined;
  readonly auxiliary: string | undefined;
}

/** A device of the host. */
export interface Device {
  readonly link: Link;
  /** The device's name on the host, which DEL restores. */
  readonly nameOnHost: string;
}

/** Drivers that pass a device to a program, so that the kernel has no link. */
const USERSPACE_DRIVERS = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/**
 * Reads the keys with which the configuration names its device.
 *
 * Source: containernetworking/plugins plugins/main/host-device/host-device.go
 * `loadConf` and `handleDeviceID`, with their error texts.
 *
 * @param sysfs The directory `/sys`
 * @throws {CniError} 7 if there are none, or `deviceID` is on neither bus
 */
export function deviceKeysOf(
  config: HostDeviceConfig,
  sysfs: string,
): DeviceKeys {
  const { device, hwaddr, kernelpath, pciBusID, runtimeConfig } = config;
  const id = runtimeConfig?.deviceID;
  const isPci = Boolean(id) && exists(pciDirectory(sysfs, id));
  const isAuxiliary = Boolean(id) && !isPci;
  if (isAuxiliary && !exists(auxiliaryDirectory(sysfs, id))) {
    throw invalidConfig(
      `runtime config DeviceID ${id} not found or unsupported`,
    );
  }
  const keys = {
    device,
    hwaddr,
    kernelpath,
    pciAddress: isPci ? id : isAuxiliary ? undefined : pciBusID,
    auxiliary: isAuxiliary ? id : undefined,
  };
  if (Object.values(keys).some(Boolean)) return keys;
  throw invalidConfig(
    'specify either "device", "hwaddr", "kernelpath" or "pciBusID"',
  );
}

/**
 * Reports whether a program, such as DPDK, drives the device.
 *
 * @throws {CniError} 11 if no driver is bound to the PCI device
 */
export function isDrivenByProgram(
  { pciAddress }: DeviceKeys,
  sysfs: string,
): boolean {
  if (!pciAddress) return false;
  try {
    const path = Deno.realPathSync(`${pciDirectory(sysfs, pciAddress)}/driver`);
    return USERSPACE_DRIVERS.includes(path.slice(path.lastIndexOf("/") + 1));
  } catch (cause) {
    throw missing("error with host device", cause);
  }
}

/**
 * Finds the device on the host.
 *
 * @throws {CniError} 7 if a key is invalid; 11 if the host does not have the device,
 * which a container might still have
 */
export function getDevice(
  host: Rtnl,
  keys: DeviceKeys,
  { sysfs, ifName }: { readonly sysfs: string; readonly ifName: string },
): Device {
  const { device, hwaddr } = keys;
  if (device) return getByName(host, device);
  const mac = hwaddr ? parseMac(hwaddr) : undefined;
  const link = mac
    ? host.link.list().find((link) => link.mac?.equals(mac))
    : host.link.find(firstIn(netDirectoryOf(keys, sysfs)));
  if (link !== undefined) {
    const lost = lostNameOf(link, ifName) ?? link.name;
    const isFree = host.link.find(lost) === undefined;
    return { link, nameOnHost: isFree ? lost : link.name };
  }
  throw missing(
    "failed to find host device: failed to find physical interface",
    new Error(
      mac
        ? `no link on the host has the MAC ${mac}`
        : "the device has no link in this network namespace",
    ),
  );
}

/**
 * Returns the name that a device of the host had before its container ended without a
 * DEL: the kernel returns it with the container's name for it, or with an unused
 * name, and keeps its alias. Returns undefined for other links.
 */
export function lostNameOf(
  link: Pick<Link, "name" | "alias" | "isUp">,
  ifName: string,
): string | undefined {
  const { name, alias } = link;
  const isLost = isGivenBack(link, ifName) && alias !== name;
  return isLost && isInterfaceName(alias) ? alias : undefined;
}

/**
 * Reports whether a link of the host has a name that the kernel assigns to a device
 * whose container has ended: the container's name for it, or an unused name.
 */
export function isGivenBack(
  { name, isUp }: Pick<Link, "name" | "isUp">,
  ifName: string,
): boolean {
  return !isUp && (name === ifName || /^dev\d+$/.test(name));
}

/** Reports whether a link can have a name. */
export function isInterfaceName(text: string | undefined): text is string {
  try {
    checkInterfaceName(text ?? "");
    return true;
  } catch {
    return false;
  }
}

/** Also finds a device that has lost its name. */
function getByName(host: Rtnl, name: string): Device {
  const link = host.link.find(name);
  if (link !== undefined) return { link, nameOnHost: link.name };
  const returned = host.link.list()
    .find(({ alias, isUp }) => alias === name && !isUp);
  if (returned !== undefined) return { link: returned, nameOnHost: name };
  throw missing(
    "failed to find host device: Link not found",
    new Error(
      `the host has no link "${name}"; another container might have it`,
    ),
  );
}

function parseMac(text: string): Mac {
  try {
    return Mac.parse(text);
  } catch (cause) {
    throw invalidConfig(
      `failed to find host device: failed to parse MAC address "${text}"`,
      { cause },
    );
  }
}

/** Returns the directory of the device in sysfs that lists its links. */
function netDirectoryOf(
  { kernelpath, pciAddress, auxiliary }: DeviceKeys,
  sysfs: string,
): string {
  if (kernelpath) return netDirectoryIn(kernelpath, sysfs);
  if (!pciAddress) return `${auxiliaryDirectory(sysfs, auxiliary)}/net`;
  const directory = pciDirectory(sysfs, pciAddress);
  // The link of a virtio device is one level further down.
  const found = ["", ...list(directory).filter((name) => /^virtio/.test(name))]
    .map((name) => `${directory}/${name}/net`).find(exists);
  if (found !== undefined) return found;
  throw missing(
    `failed to find host device: no net directory under pci device ${pciAddress}`,
  );
}

/**
 * Finds the link directory. Links in sysfs lead from a device to its bus and driver,
 * and further.
 */
function netDirectoryIn(kernelpath: string, sysfs: string): string {
  const devices = `${sysfs}/devices/`;
  if (kernelpath.startsWith("/sys/devices/")) {
    const path = `${sysfs}${kernelpath.slice("/sys".length)}/net`;
    const real = realPath(path) ?? path;
    if (real.startsWith(realPath(devices) ?? devices)) return path;
  }
  throw invalidConfig(
    `failed to find host device: kernel device path "${kernelpath}" ` +
      "must be absolute and begin with /sys/devices/",
  );
}

/** Returns undefined for a missing path. */
function realPath(path: string): string | undefined {
  return ifPossible(() => Deno.realPathSync(path));
}

/** Returns the name of a device's first link. */
function firstIn(directory: string): string {
  try {
    const [first] = list(directory);
    if (first !== undefined) return first;
  } catch (cause) {
    throw missing(
      `failed to find host device: failed to read directory ${directory}`,
      cause,
    );
  }
  throw missing(
    `failed to find host device: failed to find network device in path ${directory}`,
  );
}

function pciDirectory(sysfs: string, address = ""): string {
  return `${sysfs}/bus/pci/devices/${address}`;
}

function auxiliaryDirectory(sysfs: string, id = ""): string {
  return `${sysfs}/bus/auxiliary/devices/${id}`;
}

function list(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
}

function missing(message: string, cause?: unknown): CniError {
  return new CniError(ErrorCode.TryAgainLater, message, { cause });
}
