/**
 * A kubelet's pod-resources service for tests: gRPC on a unix socket, by which
 * Multus asks for the devices of a pod.
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
import {
  createServer as createHttp2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { createServer, type Server, type Socket } from "node:net";
import {
  decodePodRequest,
  encodeGet,
  encodeList,
  type PodDevices,
  type PodResources,
} from "./kubelet/messages.ts";
import {
  frameMessage,
  type KubeletFault,
  overrideReply,
  type Reply,
  sendReply,
} from "./kubelet/replies.ts";

export type { KubeletFault, PodResourcesMethod } from "./kubelet/replies.ts";
export type { ContainerDevices, PodDevices } from "./kubelet/messages.ts";

const SERVICE = "/v1.PodResourcesLister/";
const GRPC_UNKNOWN = 2;
const GRPC_UNIMPLEMENTED = 12;

/** A call that has come. */
export interface KubeletCall {
  /** `List`, `Get`, or the path if it is another one. */
  readonly method: string;
  /** Of the pod that a Get is about; empty for List. */
  readonly podName: string;
  readonly podNamespace: string;
  /** With the pseudo-headers. */
  readonly headers: Readonly<IncomingHttpHeaders>;
  /** In ms, by `performance.now()`. */
  readonly at: number;
}

/** How a kubelet is made. */
export interface FakeKubeletOptions {
  /** Where to listen; `kubelet.sock` in a folder of its own if undefined. */
  readonly socketPath?: string;
  /**
   * Whether there is Get: "enabled" since 1.34 and if undefined; "disabled",
   * which it says by UNKNOWN with a text, from 1.27 on; "unimplemented" before.
   */
  readonly get?: "enabled" | "disabled" | "unimplemented";
  /** Whether it speaks garbage instead of HTTP/2. */
  readonly garbage?: boolean;
}

/** A kubelet. */
export class FakeKubelet implements AsyncDisposable {
  readonly socketPath: string;
  readonly #options: FakeKubeletOptions;
  readonly #stack = new AsyncDisposableStack();
  readonly #pods = new Map<string, PodResources>();
  readonly #calls: KubeletCall[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  #faults: { readonly fault: KubeletFault; left: number }[] = [];
  #connections = 0;

  private constructor(options: FakeKubeletOptions) {
    this.#options = options;
    this.socketPath = options.socketPath ?? this.#makeSocketPath();
  }

  /** Starts one that knows no pods. */
  static async start(options: FakeKubeletOptions = {}): Promise<FakeKubelet> {
    const kubelet = new FakeKubelet(options);
    await kubelet.#listen();
    return kubelet;
  }

  /** Says what devices a pod has. */
  setPod(namespace: string, name: string, devices: PodDevices): void {
    this.#pods.set(`${namespace}/${name}`, { namespace, name, devices });
  }

  /** Forgets a pod. */
  removePod(namespace: string, name: string): void {
    this.#pods.delete(`${namespace}/${name}`);
  }

  /** Makes calls fail; of several faults the first that matches does. */
  fault(fault: KubeletFault): void {
    this.#faults.push({ fault, left: fault.times ?? Infinity });
  }

  /** Ends all faults. */
  clearFaults(): void {
    this.#faults = [];
  }

  /** Lists the calls that have come. */
  get calls(): readonly KubeletCall[] {
    return this.#calls;
  }

  /** Counts the connections that have been accepted. */
  get connections(): number {
    return this.#connections;
  }

  /** Ends it, and removes the socket. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }

  #makeSocketPath(): string {
    const folder = Deno.makeTempDirSync({ prefix: "kubelet-" });
    this.#stack.defer(() => Deno.removeSync(folder, { recursive: true }));
    return `${folder}/kubelet.sock`;
  }

  async #listen(): Promise<void> {
    Deno.mkdirSync(dirname(this.socketPath), { recursive: true });
    const server = this.#options.garbage ? garbageServer() : this.#server();
    server.on("connection", (socket: Socket) => this.#keep(socket));
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(this.socketPath, resolve);
    });
    this.#stack.defer(() => this.#close(server));
  }

  #keep(socket: Socket): void {
    this.#connections++;
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => this.#sockets.delete(socket));
  }

  async #close(server: Server): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    const closed = new Promise<void>((done) => server.close(() => done()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #server(): Server {
    const server = createHttp2Server();
    server.on("sessionError", () => {});
    server.on("stream", (stream, headers) => this.#receive(stream, headers));
    return server;
  }

  #receive(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const chunks: Uint8Array[] = [];
    stream.on("error", () => {});
    stream.on("data", (chunk: Uint8Array) => chunks.push(chunk));
    stream.on("end", () => {
      const request = new Uint8Array(chunks.flatMap((chunk) => [...chunk]));
      const call = readCall(headers, request);
      this.#calls.push(call);
      this.#answer(stream, call);
    });
  }

  #answer(stream: ServerHttp2Stream, call: KubeletCall): void {
    const fault = this.#takeFault(call.method);
    const answer = (): void => {
      if (stream.destroyed || fault.hang) return;
      if (fault.httpStatus !== undefined) {
        stream.respond({ ":status": fault.httpStatus });
        stream.end("not gRPC\n");
      } else {
        sendReply(stream, overrideReply(this.#reply(call), fault), fault);
      }
    };
    if (fault.delayMs === undefined) return answer();
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      answer();
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

/** Answers whatever comes with what is no HTTP/2. */
function garbageServer(): Server {
  return createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end("this is no HTTP/2\r\n\0\xff"));
  });
}

function readCall(
  headers: IncomingHttpHeaders,
  body: Uint8Array,
): KubeletCall {
  const path = String(headers[":path"]);
  const method = path.startsWith(SERVICE) ? path.slice(SERVICE.length) : path;
  const pod = decodePodRequest(
    method === "Get" ? body.subarray(5) : body.slice(0, 0),
  );
  return { method, ...pod, headers, at: performance.now() };
}
