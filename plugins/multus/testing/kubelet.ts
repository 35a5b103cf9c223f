/**
 * A kubelet's pod-resources service for tests: gRPC on a unix socket, from which
 * Multus requests the devices of a pod. Node.js serves the HTTP/2.
 *
 * ```ts ignore
 * await using kubelet = await FakeKubelet.start();
 * kubelet.setPod("test", "p1", { c1: { "vendor.com/nic": ["0000:03:02.1"] } });
 * ... kubelet.socketPath ...
 * assertEquals(kubelet.calls.map((call) => call.method), ["Get"]);
 * ```
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { type Bytes, concat } from "../../../net/bytes.ts";
import {
  readToEnd,
  say,
  TalkServer,
} from "../../../tests/_harness/unix_server.ts";
import {
  type HeaderRecord,
  type Http2Reply,
  type Http2Request,
  Http2Server,
  type SendReply,
} from "./http2_server.ts";

const SERVICE = "/v1.PodResourcesLister/";
const GARBAGE = new TextEncoder().encode("not HTTP/2\r\n\0\xff");
const GRPC_UNKNOWN = 2;
const GRPC_UNIMPLEMENTED = 12;

/** A complete call. */
export interface KubeletCall {
  /** `List` or `Get`; the path for any other method. */
  readonly method: string;
  /** The pod that a Get requests; empty for List. */
  readonly podName: string;
  readonly podNamespace: string;
  /** The headers, including the pseudo-headers. */
  readonly headers: HeaderRecord;
}

/** Options of a kubelet. */
export interface FakeKubeletOptions {
  /** Where to listen; `kubelet.sock` in a temporary directory if undefined. */
  readonly socketPath?: string;
  /**
   * Whether Get works: "enabled" (the default, since 1.34), "disabled" (since
   * 1.27, fails with UNKNOWN), or "unimplemented" (before 1.27).
   */
  readonly get?: "enabled" | "disabled" | "unimplemented";
  /** Whether it sends garbage instead of HTTP/2. */
  readonly garbage?: boolean;
}

/** A kubelet. */
export class FakeKubelet implements AsyncDisposable {
  readonly socketPath: string;
  readonly #options: FakeKubeletOptions;
  readonly #stack = new AsyncDisposableStack();
  readonly #pods = new Map<string, PodResources>();
  readonly #calls: KubeletCall[] = [];
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  #server: { readonly connections: number } = { connections: 0 };
  #faults: { readonly fault: KubeletFault; left: number }[] = [];

  private constructor(options: FakeKubeletOptions) {
    this.#options = options;
    this.socketPath = options.socketPath ?? this.#makeSocketPath();
  }

  /**
   * Starts a kubelet without pods.
   *
   * @throws {Deno.errors.NotFound} If Node.js is not installed
   */
  static async start(options: FakeKubeletOptions = {}): Promise<FakeKubelet> {
    const kubelet = new FakeKubelet(options);
    await using stack = new AsyncDisposableStack();
    stack.use(kubelet);
    await kubelet.#listen();
    stack.move();
    return kubelet;
  }

  /** Sets the devices of a pod. */
  setPod(namespace: string, name: string, devices: PodDevices): void {
    this.#pods.set(`${namespace}/${name}`, { namespace, name, devices });
  }

  /** Removes a pod. */
  removePod(namespace: string, name: string): void {
    this.#pods.delete(`${namespace}/${name}`);
  }

  /** Makes calls fail. If several faults match a call, the first one applies. */
  fault(fault: KubeletFault): void {
    this.#faults.push({ fault, left: fault.times ?? Infinity });
  }

  /** Removes all faults. */
  clearFaults(): void {
    this.#faults = [];
  }

  /** Lists the complete calls. */
  get calls(): readonly KubeletCall[] {
    return this.#calls;
  }

  /** Counts the accepted connections. */
  get connections(): number {
    return this.#server.connections;
  }

  /** Stops it and removes the socket. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  #makeSocketPath(): string {
    const directory = Deno.makeTempDirSync({ prefix: "kubelet-" });
    this.#stack.defer(() => Deno.removeSync(directory, { recursive: true }));
    return `${directory}/kubelet.sock`;
  }

  async #listen(): Promise<void> {
    const { socketPath: path } = this;
    Deno.mkdirSync(dirname(path), { recursive: true });
    if (this.#options.garbage) {
      const listener = Deno.listen({ transport: "unix", path });
      this.#server = this.#stack.use(new TalkServer(listener, talkGarbage));
      return;
    }
    this.#stack.defer(() => removeIfThere(path));
    const server = await Http2Server.start(
      path,
      (request, send) => this.#receive(request, send),
    );
    this.#server = this.#stack.use(server);
    this.#stack.defer(() => {
      for (const timer of this.#timers) clearTimeout(timer);
    });
  }

  #receive(request: Http2Request, send: SendReply): void {
    const call = readCall(request);
    this.#calls.push(call);
    const fault = this.#takeFault(call.method);
    if (fault.hang) return;
    const reply = (): void =>
      send(formatReply(overrideReply(this.#reply(call), fault), fault));
    if (fault.delayMs === undefined) return reply();
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      reply();
    }, fault.delayMs);
    this.#timers.add(timer);
  }

  #takeFault(method: string): KubeletFault {
    const found = this.#faults.find(({ fault, left }) =>
      left > 0 && (fault.method === undefined || fault.method === method)
    );
    if (found === undefined) return {};
    found.left--;
    return found.fault;
  }

  #reply(call: KubeletCall): Reply {
    const { get = "enabled" } = this.#options;
    if (call.method === "List") {
      return { status: 0, body: frameMessage(encodeList(this.#pods.values())) };
    }
    if (call.method !== "Get" || get === "unimplemented") {
      const message =
        `unknown method ${call.method} for service v1.PodResourcesLister`;
      return { status: GRPC_UNIMPLEMENTED, message };
    }
    if (get === "disabled") {
      const message = "PodResources API Get method disabled";
      return { status: GRPC_UNKNOWN, message };
    }
    return this.#replyToGet(call);
  }

  /** Source: kubernetes pkg/kubelet/apis/podresources/server_v1.go */
  #replyToGet({ podNamespace, podName }: KubeletCall): Reply {
    const pod = this.#pods.get(`${podNamespace}/${podName}`);
    if (pod !== undefined) {
      return { status: 0, body: frameMessage(encodeGet(pod)) };
    }
    const message = `pod ${podName} in namespace ${podNamespace} not found`;
    return { status: GRPC_UNKNOWN, message };
  }
}

/** Sends garbage after the first bytes of the client. */
async function talkGarbage(conn: Deno.UnixConn): Promise<void> {
  await conn.read(new Uint8Array(1024));
  await say(conn, GARBAGE);
  await conn.closeWrite();
  await readToEnd(conn);
}

/** Removes a socket: Node.js leaves it if it is killed. */
async function removeIfThere(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function readCall({ headers, body }: Http2Request): KubeletCall {
  const path = headers[":path"] ?? "";
  const method = path.startsWith(SERVICE) ? path.slice(SERVICE.length) : path;
  const message = method === "Get" ? body.subarray(5) : new Uint8Array();
  return { method, ...decodePodRequest(message), headers };
}

/** Devices by resource; pairs allow a resource twice. */
export type ContainerDevices =
  | Readonly<Record<string, readonly string[]>>
  | readonly (readonly [resource: string, ids: readonly string[]])[];

/** The devices of a pod, by container. */
export type PodDevices = Readonly<Record<string, ContainerDevices>>;

/** A pod and its devices. */
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

/** Decodes GetPodResourcesRequest; missing fields are empty. Source: as above. */
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

/** Also encodes CPUs, memory and claims, which a client must skip. */
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

/** Returns a number and the offset after it. */
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

/** A method of the service. */
export type PodResourcesMethod = "List" | "Get";

/** A fault that replaces a kubelet's reply. */
export interface KubeletFault {
  /** Any method if undefined. */
  readonly method?: PodResourcesMethod;
  /** How many calls fail; all if undefined. */
  readonly times?: number;
  /** Delay before the reply, in ms. */
  readonly delayMs?: number;
  /** Never replies, and keeps the stream open. */
  readonly hang?: boolean;
  /** Fails with this gRPC status, such as 14 (UNAVAILABLE). */
  readonly grpcStatus?: number;
  /** grpc-message; percent-encoded on the wire. */
  readonly grpcMessage?: string;
  /**
   * The location of an error's status: in the only headers (the default, as in Go),
   * or in trailers.
   */
  readonly where?: "trailers-only" | "trailers";
  /** HTTP status instead of 200, without gRPC. */
  readonly httpStatus?: number;
  /** Replaces the message; it is framed like in gRPC. */
  readonly message?: Bytes;
  /** Replaces the whole body. */
  readonly body?: Bytes;
  /** Ends the stream without trailers. */
  readonly withoutTrailers?: boolean;
  /** Resets the stream, or closes the connection, halfway through the body. */
  readonly drop?: "stream" | "connection";
}

/** A reply of the service. */
export interface Reply {
  readonly status: number;
  readonly message?: string;
  /** The framed message; undefined for an error. */
  readonly body?: Bytes;
}

/** Returns the reply that a fault requires. */
export function overrideReply(reply: Reply, fault: KubeletFault): Reply {
  const { grpcStatus, grpcMessage, message, body } = fault;
  if (grpcStatus !== undefined) {
    return { status: grpcStatus, message: grpcMessage ?? "" };
  }
  if (message !== undefined) return { status: 0, body: frameMessage(message) };
  return body === undefined ? reply : { status: 0, body };
}

/** Frames a message like gRPC: first an uncompressed flag and the length. */
export function frameMessage(message: Bytes): Bytes {
  const framed = new Uint8Array(5 + message.length);
  new DataView(framed.buffer).setUint32(1, message.length);
  framed.set(message, 5);
  return framed;
}

/** Builds the bytes on the wire, unless a fault drops them. */
export function formatReply(
  { status, message = "", body }: Reply,
  fault: KubeletFault,
): Http2Reply {
  const { httpStatus, drop, where, withoutTrailers } = fault;
  if (httpStatus !== undefined) {
    const body = new TextEncoder().encode("not gRPC\n");
    return { headers: { ":status": String(httpStatus) }, body };
  }
  const headers = { ":status": "200", "content-type": "application/grpc" };
  const trailers = {
    "grpc-status": String(status),
    ...(message === "" ? {} : { "grpc-message": encodeMessage(message) }),
  };
  if (body === undefined && where !== "trailers") {
    return { headers: { ...headers, ...trailers } };
  }
  const bytes = body ?? new Uint8Array();
  if (drop !== undefined) {
    const half = bytes.slice(0, Math.ceil(bytes.length / 2));
    return { headers, body: half, drop };
  }
  return { headers, body: bytes, ...(withoutTrailers ? {} : { trailers }) };
}

/** Keeps printable characters, including spaces, unlike a URL. */
function encodeMessage(text: string): string {
  return text.replace(/[^ -~]|%/gu, encodeURIComponent);
}
