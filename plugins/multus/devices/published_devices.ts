/**
 * Resource claims and their allocated devices, from the API server.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import type { KubeClient, RequestOptions } from "../../../kube/client.ts";
import { KubeError, kubeErrorCode } from "../../../kube/kube_error.ts";
import type {
  AllocatedDevice,
  ResourceSlice,
  SliceDevice,
} from "../../../kube/types.ts";

/** The API requests for claims. */
export type ClaimClient = Pick<
  KubeClient,
  "getResourceClaim" | "listResourceSlices"
>;

/** Attribute of a device: its `deviceID` for plugins. */
export const DEVICE_ID = "k8s.cni.cncf.io/deviceID";
/** Attribute of a device: the resource that networks use to request it. */
export const RESOURCE_NAME = "k8s.cni.cncf.io/resourceName";

/** A driver's attributes of a device; undefined if absent. */
export interface PublishedDevice {
  readonly deviceId: string | undefined;
  readonly resourceName: string | undefined;
}

/** The devices of a driver, by pool and name. */
type Catalog = ReadonlyMap<string, PublishedDevice>;

/** Selects claims and devices. */
export interface ClaimSelector {
  readonly client: ClaimClient;
  /** The namespace of the claims. */
  readonly namespace: string;
  /** The node of the devices; all nodes if undefined. */
  readonly nodeName: string | undefined;
}

/** Time limit of an attempt, in milliseconds, because a list can be long. */
const PER_TRY_MS = 5000;

/** Reads claims and devices, each only once. */
export class DeviceDirectory {
  readonly #scope: ClaimSelector;
  readonly #options: RequestOptions;
  readonly #claims = new Map<string, Promise<readonly AllocatedDevice[]>>();
  readonly #catalogs = new Map<string, Promise<Catalog>>();

  /** Creates a directory, without any I/O. */
  constructor(scope: ClaimSelector, signal: AbortSignal, overallMs: number) {
    this.#scope = scope;
    this.#options = { signal, overallMs, perTryMs: PER_TRY_MS };
  }

  /**
   * Lists the devices that are allocated to a claim.
   *
   * @throws {CniError} 11 if no device is allocated yet, or the server is
   * unavailable; 7 if the claim does not exist
   */
  listAllocated(claim: string): Promise<readonly AllocatedDevice[]> {
    return this.#claims.getOrInsertComputed(
      claim,
      () => this.#readClaim(claim),
    );
  }

  /**
   * Finds the attributes that a driver publishes for a device.
   *
   * @returns Undefined if the driver does not publish the device
   * @throws {CniError} 11 if the server is unavailable, 7 if it refuses
   */
  async findPublished(
    { driver, pool, device }: AllocatedDevice,
  ): Promise<PublishedDevice | undefined> {
    const catalog = await this.#catalogs
      .getOrInsertComputed(driver, () => this.#readCatalog(driver));
    return catalog.get(keyOf(pool, device));
  }

  async #readClaim(name: string): Promise<readonly AllocatedDevice[]> {
    const { client, namespace } = this.#scope;
    const { status } = await explain(
      `read resource claim "${namespace}/${name}"`,
      () => client.getResourceClaim(namespace, name, this.#options),
    );
    const results = status?.allocation?.devices?.results;
    if (results) return results;
    throw new CniError(
      ErrorCode.TryAgainLater,
      `claim ${name} has no device allocation`,
    );
  }

  async #readCatalog(driver: string): Promise<Catalog> {
    const { client, nodeName } = this.#scope;
    const slices = await explain(
      `list the resource slices of "${driver}"`,
      () => client.listResourceSlices({ driver, nodeName }, this.#options),
    );
    return new Map(slices.flatMap(listPublished));
  }
}

function listPublished(
  { spec: { pool, devices } }: ResourceSlice,
): [key: string, PublishedDevice][] {
  return (devices ?? []).map(({ name, attributes }) => [
    keyOf(pool.name, name),
    {
      deviceId: findText(attributes, DEVICE_ID),
      resourceName: findText(attributes, RESOURCE_NAME),
    },
  ]);
}

/**
 * Builds a key for a driver's device; pool names can contain slashes, device names
 * cannot.
 */
function keyOf(pool: string, device: string): string {
  return `${pool}/${device}`;
}

function findText(
  attributes: SliceDevice["attributes"],
  name: string,
): string | undefined {
  return attributes?.[name]?.string || undefined;
}

async function explain<T>(action: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    throw new CniError(kubeErrorCode(error), `Cannot ${action}`, {
      cause: error,
    });
  }
}
