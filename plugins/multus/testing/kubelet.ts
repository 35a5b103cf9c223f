/**
 * A kubelet's pod-resources service for tests: gRPC on a unix socket, which
 * Multus asks for the devices of a pod. Node.js serves the HTTP/2.
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
  type HeaderRecord,
  type Http2Request,
  Http2Server,
  type SendReply,
} from "./kubelet/http2_server.ts";
import {
  decodePodRequest,
  encodeGet,
  encodeList,
  type PodDevices,
  type PodResources,
} from "./kubelet/messages.ts";
import {
  formatReply,
  frameMessage,
  type KubeletFault,
  overrideReply,
  type Reply,
} from "./kubelet/replies.ts";
import {
  readToEnd,
  say,
  TalkServer,
} from "../../../tests/_harness/talk_server.ts";

export type { KubeletFault, PodResourcesMethod } from "./kubelet/replies.ts";
export type { ContainerDevices, PodDevices } from "./kubelet/messages.ts";

const SERVICE = "/v1.PodResourcesLister/";
const GARBAGE = new TextEncoder().encode("not HTTP/2\r\n\0\xff");
const GRPC_UNKNOWN = 2;
const GRPC_UNIMPLEMENTED = 12;

/** A complete call. */
export interface KubeletCall {
  /** `List` or `Get`; the path for any other method. */
  readonly method: string;
  /** The pod that a Get asks for; empty for List. */
  readonly podName: string;
  readonly podNamespace: string;
  /** Includes the pseudo-headers. */
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
   * Starts one without pods.
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

  /** Forgets a pod. */
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
