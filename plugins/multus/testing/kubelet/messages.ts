/**
 * The messages of a kubelet's pod-resources service, as far as tests need them.
 *
 * @module
 */

import { type Bytes, concat } from "../../../../net/bytes.ts";

/** Devices by resource; pairs allow a resource twice. */
export type ContainerDevices =
  | Readonly<Record<string, readonly string[]>>
  | readonly (readonly [resource: string, ids: readonly string[]])[];

/** The devices of a pod, by container. */
export type PodDevices = Readonly<Record<string, ContainerDevices>>;

/** A pod and what it has. */
export interface PodResources {
  readonly namespace: string;
  readonly name: string;
  readonly devices: PodDevices;
}

const VARINT = 0;
const LENGTH_DELIMITED = 2;

/**
 * Encodes ListPodResourcesResponse.
 *
 * Source: k8s.io/kubelet/pkg/apis/podresources/v1/api.proto
 */
export function encodeList(pods: Iterable<PodResources>): Bytes {
  return concat([...pods].map((pod) => field(1, encodePod(pod))));
}

/** Encodes GetPodResourcesResponse. Source: as above. */
export function encodeGet(pod: PodResources): Bytes {
  return field(1, encodePod(pod));
}

/** Decodes GetPodResourcesRequest; what it does not say is empty. Source: as above. */
export function decodePodRequest(
  message: Uint8Array,
): { readonly podName: string; readonly podNamespace: string } {
  const texts = new Map<number, string>();
  let at = 0;
  while (at < message.length) {
    const [tag, afterTag] = readVarint(message, at);
    const [length, start] = readVarint(message, afterTag);
    at = start + length;
    texts.set(tag >> 3, new TextDecoder().decode(message.subarray(start, at)));
  }
  return { podName: texts.get(1) ?? "", podNamespace: texts.get(2) ?? "" };
}

function encodePod({ namespace, name, devices }: PodResources): Bytes {
  const containers = Object.entries(devices);
  return concat([
    field(1, text(name)),
    field(2, text(namespace)),
    ...containers.map((container) => field(3, encodeContainer(...container))),
  ]);
}

/** Has CPUs, memory and claims too, which a client must skip. */
function encodeContainer(name: string, devices: ContainerDevices): Bytes {
  const pairs: readonly (readonly [string, readonly string[]])[] =
    Array.isArray(devices) ? devices : Object.entries(devices);
  return concat([
    field(1, text(name)),
    ...pairs.map((pair) => field(2, encodeDevices(...pair))),
    field(3, concat([varint(0), varint(300)])),
    field(4, concat([field(1, text("memory")), number(2, 1 << 30)])),
    field(5, concat([field(1, text("claim1")), field(2, text(name))])),
  ]);
}

function encodeDevices(resource: string, ids: readonly string[]): Bytes {
  const numaNode = field(1, number(1, 1));
  return concat([
    field(1, text(resource)),
    ...ids.map((id) => field(2, text(id))),
    field(3, numaNode),
  ]);
}

function field(number: number, content: Bytes): Bytes {
  const tag = varint(number << 3 | LENGTH_DELIMITED);
  return concat([tag, varint(content.length), content]);
}

function number(field: number, value: number): Bytes {
  return concat([varint(field << 3 | VARINT), varint(value)]);
}

function text(value: string): Bytes {
  return new TextEncoder().encode(value);
}

function varint(value: number): Bytes {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 0x7f) {
    bytes.push(rest % 0x80 + 0x80);
    rest = Math.floor(rest / 0x80);
  }
  return Uint8Array.from([...bytes, rest]);
}

/** Returns a number and the place after it. */
function readVarint(message: Uint8Array, at: number): [number, number] {
  let value = 0;
  let scale = 1;
  for (let next = at;; next++, scale *= 0x80) {
    const byte = message[next];
    if (byte === undefined) throw new RangeError("The message is cut off");
    value += (byte % 0x80) * scale;
    if (byte < 0x80) return [value, next + 1];
  }
}
