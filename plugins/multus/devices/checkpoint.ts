/**
 * Reads the checkpoint of the kubelet's device manager, for kubelets without a
 * pod-resources socket.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { optional } from "../../../cni/config/types.ts";
import { decode, once, parseJson } from "../../../base/json/json.ts";
import type { PodDevice } from "./pod_resources.ts";
import { readFile } from "../../../base/files/io.ts";

/**
 * The file. Devices are lists by NUMA node since Kubernetes 1.20; before, they are a
 * single list.
 *
 * Source: kubernetes pkg/kubelet/cm/devicemanager/checkpoint/{checkpoint,checkpointv1}.go.
 */
const checkpointSchema = once(() => {
  const ids = z.array(z.string());
  const byNumaNode = z.record(z.string(), z.nullable(ids));
  return z.looseObject({
    Data: optional(z.looseObject({
      PodDeviceEntries: optional(z.array(z.looseObject({
        PodUID: optional(z.string()),
        ResourceName: optional(z.string()),
        DeviceIDs: optional(z.union([ids, byNumaNode])),
      }))),
    })),
  });
});

/**
 * Reads which devices the kubelet's device plugins assigned to the containers of a
 * pod.
 *
 * @param podUid The pod's UID, because the file contains no names
 * @throws {CniError} 5 if the file cannot be read, 6 or 7 if it is malformed
 */
export function readCheckpoint(path: string, podUid: string): PodDevice[] {
  const { Data } = decode(checkpointSchema(), readDocument(path), `"${path}"`);
  return (Data?.PodDeviceEntries ?? [])
    .filter(({ PodUID }) => PodUID === podUid)
    .flatMap(({ ResourceName: resourceName = "", DeviceIDs = [] }) =>
      listIds(DeviceIDs).map((deviceId) => ({ resourceName, deviceId }))
    );
}

function listIds(
  ids: string[] | Record<string, string[] | null>,
): string[] {
  return Array.isArray(ids)
    ? ids
    : Object.values(ids).flatMap((ofNode) => ofNode ?? []);
}

function readDocument(path: string): unknown {
  try {
    return parseJson(readFile(path), `"${path}"`);
  } catch (error) {
    if (error instanceof CniError) throw error;
    // The reference's text, so that log searches find it.
    throw new CniError(ErrorCode.IoFailure, `error reading file ${path}`, {
      cause: error,
    });
  }
}
