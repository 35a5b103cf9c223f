/**
 * Deletion of an object on the condition that it is the one that was read.
 *
 * Source: k8s.io/apimachinery/pkg/apis/meta/v1/types.go `DeleteOptions`.
 *
 * @module
 */

import type { KubeClient, RequestOptions } from "./client.ts";
import { hasStatus } from "./kube_error.ts";

/**
 * Deletes an object.
 *
 * @param path The path of the object in the API
 * @param preconditions What it must have; an undefined value is not compared
 * @returns False if it does not exist, or is another one by now
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
