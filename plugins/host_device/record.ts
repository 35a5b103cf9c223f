/**
 * Records on the host of devices that are in containers: each device's identity, and
 * its state on the host. A container with CAP_NET_ADMIN can change everything that it
 * sees of its device, so the device is restored from the record.
 *
 * @module
 */

import { join } from "@std/path/posix";
import * as z from "zod/mini";
import { checkChange } from "../../ffi/change_check.ts";
import {
  ifPossible,
  readFile,
  unlessUnreachable,
  withIoFailure,
} from "../../base/files/io.ts";
import { listFiles } from "../../base/files/list_files.ts";
import { replaceFile } from "../../base/files/replace.ts";
import {
  decode,
  once,
  parseJson,
  type SchemaOutput,
} from "../../base/json/json.ts";
import { optional, parsedText } from "../../cni/config/types.ts";
import type { Call } from "../../cni/plugin.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Mac } from "../../net/mac.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { netnsIdOf, persistentIdOf } from "../parts/sandbox/sandbox.ts";
import type { HostDeviceConfig } from "./schema.ts";

/** Default directory of the files. It is empty after a reboot. */
export const DATA_DIR = "/run/cni/host-device";

const recordSchema = once(() => {
  const mac = optional(parsedText(Mac.parse));
  return z.looseObject({
    /** The attachment. */
    network: z.string(),
    containerId: z.string(),
    ifName: z.string(),
    /**
     * Its sandbox: the path, device and inode, and the result of `persistentIdOf`.
     */
    netns: z.object({
      path: z.string(),
      file: optional(z.string()),
      id: optional(z.string()),
    }),
    /** The name of the device on the host. */
    name: z.string(),
    /** Its index in the container. */
    index: z.int(),
    /** Properties from the kernel, which no container can change. */
    kind: z.string(),
    parent: optional(z.object({ bus: z.string(), name: z.string() })),
    permanentMac: mac,
    linkIndex: optional(z.int()),
    /** Whether its peer or lower link is on the host. */
    isLinkHere: optional(z.boolean()),
    /** Its state on the host. */
    alias: optional(z.string()),
    alternativeNames: z.array(z.string()),
    /** With `useInterfaceNetwork`. Routes are encoded kernel messages. */
    hostNetwork: optional(z.object({
      isUp: z.boolean(),
      /** When the lifetimes were read, in ms since 1970. */
      readAtMs: optional(z.number()),
      addresses: z.array(
        z.object({
          address: z.string(),
          noPrefixRoute: z.boolean(),
          /** The lifetime of a leased address, in seconds. */
          lifetime: optional(
            z.object({ preferred: z.number(), valid: z.number() }),
          ),
        }),
      ),
      routes: z.array(z.string()),
      rules: z.array(
        z.object({ source: z.string(), table: z.int(), priority: z.int() }),
      ),
    })),
    settings: z.object({
      mac,
      mtu: optional(z.int()),
      promisc: optional(z.boolean()),
      allmulti: optional(z.boolean()),
      arp: optional(z.boolean()),
      multicast: optional(z.boolean()),
      group: optional(z.int()),
      txQLen: optional(z.int()),
    }),
  });
});

/** A record. */
export type DeviceRecord = SchemaOutput<ReturnType<typeof recordSchema>>;

/**
 * The file of an attachment's record, next to the records of other attachments.
 */
export class RecordFile {
  readonly #directory: string;
  readonly #path: string;
  readonly #call: Call<HostDeviceConfig>;

  constructor(call: Call<HostDeviceConfig>) {
    const { network, containerId, ifName } = attachmentOf(call);
    this.#call = call;
    this.#directory = call.config.dataDir || DATA_DIR;
    // No network, container or interface name contains a colon.
    const name = `${network}:${containerId}:${ifName}.json`;
    this.#path = join(this.#directory, name);
  }

  /**
   * Reads the record. Returns undefined without a record, or if it is invalid.
   *
   * @throws {CniError} 5 if the file cannot be read
   */
  read(): DeviceRecord | undefined {
    const bytes = withIoFailure(
      `read "${this.#path}"`,
      () => unlessUnreachable(() => readFile(this.#path)),
    );
    const record = bytes && parseRecord(bytes);
    if (bytes !== undefined && record === undefined) {
      this.#call.log.warn(`Ignoring "${this.#path}"`, {
        problem: "it is not a record of a device",
      });
    }
    return record;
  }

  /**
   * Writes the record, for root only.
   *
   * @throws {CniError} 5 if the file cannot be written
   */
  write(record: DeviceRecord): void {
    const text = JSON.stringify(record, undefined, 1);
    withIoFailure(`write "${this.#path}"`, () => {
      replaceFile(this.#path, new TextEncoder().encode(text));
    });
  }

  /**
   * Removes the record, if it exists.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(): void {
    checkChange();
    withIoFailure(
      `remove "${this.#path}"`,
      () => unlessUnreachable(() => Deno.removeSync(this.#path)),
    );
  }

  /** Lists the records of other attachments of the same container. */
  listOthers(sandbox: Rtnl): DeviceRecord[] {
    return this.list()
      .filter(({ path, record }) =>
        path !== this.#path && isSandboxOf(record, sandbox)
      ).map(({ record }) => record);
  }

  /** Lists the records of all attachments. */
  list(): FoundRecord[] {
    return listRecords(this.#directory);
  }
}

/** A record with its path. */
export interface FoundRecord {
  readonly path: string;
  readonly record: DeviceRecord;
}

/** Lists the records in a directory. Ignores other files. */
export function listRecords(directory: string): FoundRecord[] {
  return listFiles(directory).flatMap(({ name }) => {
    const path = join(directory, name);
    const record = name.endsWith(".json")
      ? ifPossible(() => parseRecord(readFile(path)))
      : undefined;
    return record === undefined ? [] : [{ path, record }];
  });
}

/** Reports whether a namespace can be a record's namespace: true if it is unknown. */
export function isSandboxOf(
  { netns: { file, id } }: DeviceRecord,
  sandbox: Rtnl,
): boolean {
  const present = id === undefined ? undefined : persistentIdOf(sandbox);
  if (present !== undefined) return present === id;
  return file === undefined || file === netnsIdOf(sandbox.netns);
}

function parseRecord(bytes: Uint8Array): DeviceRecord | undefined {
  return ifPossible(() => decode(recordSchema(), parseJson(bytes), "record"));
}
