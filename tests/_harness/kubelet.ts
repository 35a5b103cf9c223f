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
import { Http2Connection } from "./http2/connection.ts";
import type { HeaderRecord, Http2Stream } from "./http2/stream.ts";
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
import { readToEnd, say, TalkServer } from "./talk_server.ts";

export type { KubeletFault, PodResourcesMethod } from "./kubelet/replies.ts";
export type { ContainerDevices, PodDevices } from "./kubelet/messages.ts";

const SERVICE = "/v1.PodResourcesLister/";
const GARBAGE = new TextEncoder().encode("this is no HTTP/2\r\n\0\xff");
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
  readonly headers: HeaderRecord;
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
  readonly #timers = new Set<ReturnType<typeof setTimeout>>();
  readonly #server: TalkServer<Deno.UnixConn>;
  #faults: { readonly fault: KubeletFault; left: number }[] = [];

  private constructor(options: FakeKubeletOptions) {
    this.#options = options;
    this.socketPath = options.socketPath ?? this.#makeSocketPath();
    this.#server = this.#stack.use(this.#listen());
    this.#stack.defer(() => {
      for (const timer of this.#timers) clearTimeout(timer);
    });
  }

  /** Starts one that knows no pods. */
  static start(options: FakeKubeletOptions = {}): Promise<FakeKubelet> {
    return Promise.resolve(new FakeKubelet(options));
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
    return this.#server.connections;
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

  #listen(): TalkServer<Deno.UnixConn> {
    Deno.mkdirSync(dirname(this.socketPath), { recursive: true });
    const talk = this.#options.garbage
      ? talkGarbage
      : (conn: Deno.UnixConn): Promise<void> => this.#serve(conn);
    const { socketPath: path } = this;
    return new TalkServer(Deno.listen({ transport: "unix", path }), talk);
  }

  async #serve(conn: Deno.UnixConn): Promise<void> {
    await new Http2Connection(conn, (stream) => void this.#receive(stream))
      .serve();
  }

  async #receive(stream: Http2Stream): Promise<void> {
    await stream.ended;
    if (stream.failure !== undefined) return;
    const call = readCall(stream.headers ?? {}, stream.body);
    this.#calls.push(call);
    this.#answer(stream, call);
  }

  #answer(stream: Http2Stream, call: KubeletCall): void {
    const fault = this.#takeFault(call.method);
    const answer = (): void => {
      if (fault.hang) return;
      const reply = overrideReply(this.#reply(call), fault);
      void sendReply(stream, reply, fault);
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
async function talkGarbage(conn: Deno.UnixConn): Promise<void> {
  await conn.read(new Uint8Array(1024));
  await say(conn, GARBAGE);
  await conn.closeWrite();
  await readToEnd(conn);
}

function readCall(headers: HeaderRecord, body: Uint8Array): KubeletCall {
  const path = headers[":path"] ?? "";
  const method = path.startsWith(SERVICE) ? path.slice(SERVICE.length) : path;
  const pod = decodePodRequest(
    method === "Get" ? body.subarray(5) : body.slice(0, 0),
  );
  return { method, ...pod, headers, at: performance.now() };
}
