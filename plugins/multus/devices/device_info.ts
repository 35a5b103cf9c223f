/**
 * Device information files, written by device plugins and CNI plugins.
 *
 * A device plugin describes a device in the directory `dp`. multus copies the file to
 * the attachment's file in the directory `cni`, where the CNI plugin can complete or
 * create it. The final content becomes part of the network status.
 *
 * Source: Device Information Specification v1.1.0.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  readFile,
  removeIfThere,
  unlessMissing,
  withIoFailure,
} from "../../../base/files/io.ts";
import {
  isObject,
  type JsonObject,
  parseJson,
} from "../../../base/json/json.ts";
import { checkChange } from "../../../ffi/change_check.ts";
import { DEVICE_INFO_DIR } from "../model/attachment.ts";

/**
 * Copies the device plugin's file to the CNI plugin's path. The copy is atomic and
 * world-readable.
 *
 * @param path From `deviceInfoPath()`; missing directories are created
 * @returns Whether the device plugin has a file
 * @throws {CniError} 5 if a file cannot be read or written, or the target exists;
 *   6 if it is not a JSON object
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
  const source = `${baseDir}/dp/${name.replaceAll("/", "-")}`;
  const bytes = findFile(source);
  if (bytes === undefined) return false;
  parseDeviceInfo(bytes, source);
  withIoFailure(`copy "${source}"`, () => createFile(path, bytes));
  return true;
}

/**
 * Reads the device information of an attachment.
 *
 * @returns Undefined without a file
 * @throws {CniError} 5 if it cannot be read, 6 if it is not a JSON object
 */
export function findDeviceInfo(path: string): JsonObject | undefined {
  const bytes = findFile(path);
  return bytes && parseDeviceInfo(bytes, path);
}

/**
 * Removes a file; succeeds without one.
 *
 * @throws {CniError} 5 if it cannot be removed
 */
export function removeDeviceInfo(path: string): void {
  removeIfThere(path);
}

function findFile(path: string): Uint8Array | undefined {
  return withIoFailure(
    `read "${path}"`,
    () => unlessMissing(() => readFile(path)),
  );
}

function parseDeviceInfo(bytes: Uint8Array, path: string): JsonObject {
  const value = parseJson(bytes, `"${path}"`);
  if (isObject(value)) return value as JsonObject;
  throw new CniError(
    ErrorCode.DecodingFailure,
    `Cannot parse "${path}": it is not an object`,
  );
}

/**
 * Writes a file under a different name first, then links it: a link, unlike a rename,
 * never overwrites.
 */
function createFile(path: string, bytes: Uint8Array): void {
  const dir = dirname(path);
  checkChange();
  Deno.mkdirSync(dir, { recursive: true, mode: 0o755 });
  const temporary = Deno.makeTempFileSync({ dir, prefix: ".unfinished-" });
  try {
    Deno.writeFileSync(temporary, bytes);
    Deno.chmodSync(temporary, 0o444);
    Deno.linkSync(temporary, path);
  } finally {
    Deno.removeSync(temporary);
  }
}
