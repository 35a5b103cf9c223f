/**
 * An API server on a thread of its own, so that it makes no system call on the
 * thread of the test, with as many pods as are wanted.
 *
 * @module
 */

import { KubeApi } from "../../kube/testing/kube_api.ts";

/** The namespace of the pods. */
const NAMESPACE = "test";
/** The network of which each pod wants an interface. */
const NETWORK = "second";

/** What the thread is to serve. */
interface Content {
  readonly directory: string;
  readonly pods: number;
  readonly second: object;
}

/** The server. */
export class KubeWorker implements AsyncDisposable {
  readonly #worker: Worker;
  /** Path of a kubeconfig for it. */
  readonly kubeconfig: string;

  private constructor(worker: Worker, kubeconfig: string) {
    this.#worker = worker;
    this.kubeconfig = kubeconfig;
  }

  /**
   * Starts it.
   *
   * @param directory For its kubeconfig
   * @param pods How many pods there are, besides one
   * @param second The network of which each one wants an interface
   */
  static async start(
    directory: string,
    pods: number,
    second: object,
  ): Promise<KubeWorker> {
    const worker = new Worker(import.meta.url, { type: "module" });
    const content: Content = { directory, pods, second };
    return new KubeWorker(worker, await ask(worker, content));
  }

  /** The node of the pods. */
  static readonly nodeName = "node";

  /** Returns the name of the pod of a number. */
  static nameOf(number: number): string {
    return `pod-${number}`;
  }

  /** Returns how many events it has received. */
  async countEvents(): Promise<number> {
    return Number(await ask(this.#worker, "count events"));
  }

  /** Stops it, and closes its sockets. */
  async [Symbol.asyncDispose](): Promise<void> {
    await ask(this.#worker, "stop");
    this.#worker.terminate();
  }
}

/** What the thread is asked. */
type Order = Content | "count events" | "stop";

function ask(worker: Worker, order: Order): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  worker.onmessage = ({ data }) => resolve(data);
  worker.onerror = reject;
  worker.postMessage(order);
  return promise;
}

async function serve({ pods, second }: Content): Promise<KubeApi> {
  const api = await KubeApi.start({ transport: "http" });
  api.put("namespaces", { metadata: { name: "kube-system" } });
  api.putNad(NAMESPACE, NETWORK, second);
  for (let number = 0; number <= pods; number++) {
    api.putPod({
      metadata: {
        namespace: NAMESPACE,
        name: KubeWorker.nameOf(number),
        annotations: { "k8s.v1.cni.cncf.io/networks": NETWORK },
      },
      spec: { nodeName: KubeWorker.nodeName },
    });
  }
  return api;
}

/** A worker's global scope, of which this module has no types. */
interface WorkerScope {
  onmessage: (event: MessageEvent<Order>) => void;
  postMessage(answer: string): void;
}

if ("WorkerGlobalScope" in globalThis) {
  const scope = globalThis as unknown as WorkerScope;
  let api: KubeApi | undefined;
  scope.onmessage = async ({ data }) => {
    scope.postMessage(await answer(data));
  };
  const answer = async (order: Order): Promise<string> => {
    if (order === "count events") return String(api?.events.length ?? 0);
    if (order === "stop") {
      await api?.[Symbol.asyncDispose]();
      return "";
    }
    api = await serve(order);
    return api.writeKubeconfig(order.directory);
  };
}
