/**
 * The files in which device plugins and CNI plugins tell about devices.
 *
 * A device plugin writes what it knows of a device into the folder `dp`. It is
 * copied into the folder `cni`, into a file of the attachment, where the CNI
 * plugin may complete it, or write it if there is none. What is there in the
 * end becomes a part of the network status.
 *
 * Source: Device Information Specification v1.1.0.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import {
  removeIfThere,
  unlessMissing,
  withIoFailure,
} from "../../../cni/io_failure.ts";
import { isObject, type JsonObject, parseJson } from "../../../cni/json.ts";

/** Where both folders are. */
export const DEVICE_INFO_DIR = "/var/run/k8s.cni.cncf.io/devinfo";

/** Whose file it is. */
export interface DeviceInfoKey {
  /** What status and errors call the delegate: `ns/nad`, or the CNI name. */
  readonly delegateName: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** Makes the path that a CNI plugin is given as capability `CNIDeviceInfoFile`. */
export function deviceInfoPath(
  { delegateName, containerId, ifName }: DeviceInfoKey,
  baseDir: string = DEVICE_INFO_DIR,
): string {
  const name = `${delegateName}-${containerId}_${ifName}`;
  return `${baseDir}/cni/${withoutSlashes(name)}`;
}

/**
 * Copies what the device plugin says of a device to where the CNI plugin looks.
 * The file is there whole or not at all, and for all to read.
 *
 * @param path As made by {@linkcode deviceInfoPath}; folders are made as needed
 * @returns Whether the device plugin says anything
 * @throws {CniError} 5 if a file cannot be read or written, or is there
 *   already; 6 if it is no JSON object
 */
export function copyDeviceInfo(
  { resourceName, deviceId }: {
    readonly resourceName: string;
    readonly deviceId: string;
  },
  path: string,
  baseDir: string = DEVICE_INFO_DIR,
): boolean {
  const name = `${resourceName}-${deviceId}-device.json`;
  const source = `${baseDir}/dp/${withoutSlashes(name)}`;
  const bytes = findFile(source);
  if (bytes === undefined) return false;
  parseObject(bytes, source);
  withIoFailure(`copy "${source}"`, () => createFile(path, bytes));
  return true;
}

/**
 * Finds what is known of the device of an attachment.
 *
 * @returns Undefined if there is no file
 * @throws {CniError} 5 if it cannot be read, 6 if it is no JSON object
 */
export function findDeviceInfo(path: string): JsonObject | undefined {
  const bytes = findFile(path);
  return bytes && parseObject(bytes, path);
}

/**
 * Removes a file; it may be gone already.
 *
 * @throws {CniError} 5 if it cannot be removed
 */
export function removeDeviceInfo(path: string): void {
  removeIfThere(path);
}

function withoutSlashes(name: string): string {
  return name.replaceAll("/", "-");
}

function findFile(path: string): Uint8Array | undefined {
  return withIoFailure(
    `read "${path}"`,
    () => unlessMissing(() => Deno.readFileSync(path)),
  );
}

function parseObject(bytes: Uint8Array, path: string): JsonObject {
  const value = parseJson(bytes, `"${path}"`);
  if (isObject(value)) return value as JsonObject;
  throw new CniError(
    ErrorCode.DecodingFailure,
    `Cannot parse "${path}": it is no object`,
  );
}

/** Writes a file under another name first; a link, unlike a rename, never overwrites. */
function createFile(path: string, bytes: Uint8Array): void {
  const dir = dirname(path);
  Deno.mkdirSync(dir, { recursive: true, mode: 0o755 });
  const unfinished = Deno.makeTempFileSync({ dir, prefix: ".unfinished-" });
  try {
    Deno.writeFileSync(unfinished, bytes);
    Deno.chmodSync(unfinished, 0o444);
    Deno.linkSync(unfinished, path);
  } finally {
    Deno.removeSync(unfinished);
  }
}
