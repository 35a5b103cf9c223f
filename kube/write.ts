/**
 * Changes of an object on the condition that it has not changed since it was read.
 *
 * Source: RFC 6902.
 *
 * @module
 */

import type { KubeClient, RequestOptions } from "./client.ts";
import { hasStatus } from "./kube_error.ts";

/** An operation of a JSON patch. */
export interface PatchOperation {
  readonly op: "test" | "add" | "replace" | "remove";
  readonly path: string;
  readonly value?: unknown;
}

/** Options of {@linkcode patchJson}. */
export interface PatchOptions extends RequestOptions {
  /** Whether the answer may contain the metadata only. */
  readonly onlyMetadata?: boolean;
}

/**
 * Patches an object.
 *
 * @param path The path of the object in the API
 * @returns The patched object; undefined if a test failed, another writer came
 *   first, or the object does not exist
 * @throws {KubeError}
 */
export async function patchJson<T>(
  client: Pick<KubeClient, "request">,
  path: string,
  operations: readonly PatchOperation[],
  { onlyMetadata, ...limits }: PatchOptions,
): Promise<T | undefined> {
  try {
    return await client.request<T>({
      method: "PATCH",
      path,
      contentType: "application/json-patch+json",
      body: operations,
      onlyMetadata,
    }, limits);
  } catch (error) {
    if (hasStatus(error, 404, 409, 422)) return undefined;
    throw error;
  }
}

/**
 * Deletes an object.
 *
 * @param path The path of the object in the API
 * @param preconditions Required values; an undefined value is not compared
 * @returns False if it does not exist, or was replaced by a new object
 * @throws {KubeError}
 */
export async function deleteObject(
  client: Pick<KubeClient, "request">,
  path: string,
  preconditions: {
    readonly uid?: string | undefined;
    readonly resourceVersion?: string | undefined;
  },
  options: RequestOptions,
): Promise<boolean> {
  const body = { kind: "DeleteOptions", apiVersion: "v1", preconditions };
  try {
    await client.request({ method: "DELETE", path, body }, options);
    return true;
  } catch (error) {
    if (hasStatus(error, 404, 409)) return false;
    throw error;
  }
}
