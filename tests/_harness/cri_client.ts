/**
 * A client of the CRI, for pods without containers.
 *
 * @module
 */

import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { GrpcClient } from "../../plugins/multus/devices/grpc.ts";
import {
  type Codec,
  message,
  messages,
  text,
} from "../../plugins/multus/devices/protobuf.ts";
import { eventually } from "./eventually.ts";

/** A port of the host that a pod has. */
export interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
}

const portMapping: Codec<PortMapping> = {
  encode: ({ hostPort, containerPort }) =>
    new BinaryWriter().uint32(2 << 3).int32(containerPort)
      .uint32(3 << 3).int32(hostPort).finish(),
  decode: () => ({ hostPort: 0, containerPort: 0 }),
};

// Source: k8s.io/cri-api pkg/apis/runtime/v1/api.proto.
const metadata = message({ name: text(1), uid: text(2), namespace: text(3) });
const podConfig = message({
  metadata: messages(1, metadata),
  portMappings: messages(5, portMapping),
});
const runRequest = message({ config: messages(1, podConfig) });
const idMessage = message({ id: text(1) });
const address = message({ ip: text(1) });
const podNetwork = message({ ip: text(1), others: messages(2, address) });
const podStatus = message({ network: messages(5, podNetwork) });
const statusResponse = message({ status: messages(1, podStatus) });
const condition = message({ type: text(1), reason: text(3), message: text(4) });
const runtimeStatus = message({ conditions: messages(1, condition) });
const runtimeResponse = message({ status: messages(1, runtimeStatus) });

const podList = message({ items: messages(1, idMessage) });

/** Starts and removes pods. */
export class CriClient implements Disposable {
  readonly #client: GrpcClient;
  readonly #pods = new Set<string>();

  /** Uses the runtime's socket. */
  constructor(socket: string) {
    this.#client = new GrpcClient(socket);
  }

  /** Reports whether the runtime answers. */
  async runs(): Promise<boolean> {
    try {
      await this.#call("Version", new Uint8Array());
      return true;
    } catch {
      return false;
    }
  }

  /** Waits until the network is ready. */
  async untilReady(): Promise<void> {
    await eventually("the runtime is ready", async () => {
      try {
        const bytes = await this.#call("Status", new Uint8Array());
        const [status] = runtimeResponse.decode(bytes).status;
        return status?.conditions.every(({ reason }) =>
          !/NotReady$/.test(reason)
        ) ?? false;
      } catch {
        return false;
      }
    });
  }

  /** Starts a pod; returns its ID. */
  async run(name: string, ports: PortMapping[] = []): Promise<string> {
    const pod = {
      metadata: [{ name, uid: name, namespace: "default" }],
      portMappings: ports,
    };
    const request = runRequest.encode({ config: [pod] });
    const { id } = idMessage.decode(await this.#call("RunPodSandbox", request));
    this.#pods.add(id);
    return id;
  }

  /** Lists the addresses of a pod. */
  async addresses(id: string): Promise<string[]> {
    const request = idMessage.encode({ id });
    const bytes = await this.#call("PodSandboxStatus", request);
    const [status] = statusResponse.decode(bytes).status;
    const [network] = status?.network ?? [];
    if (network === undefined) return [];
    return [network.ip, ...network.others.map(({ ip }) => ip)];
  }

  /** Lists the IDs of all pods that the runtime knows. */
  async pods(): Promise<string[]> {
    const bytes = await this.#call("ListPodSandbox", new Uint8Array());
    return podList.decode(bytes).items.map(({ id }) => id);
  }

  /** Stops and removes a pod. */
  async remove(id: string): Promise<void> {
    await this.#call("StopPodSandbox", idMessage.encode({ id }));
    await this.#call("RemovePodSandbox", idMessage.encode({ id }));
    this.#pods.delete(id);
  }

  /** Removes the pods that it has started, as far as that succeeds. */
  async removeAll(): Promise<void> {
    for (const id of this.#pods) await this.remove(id).catch(() => {});
  }

  /** Closes the connection. */
  [Symbol.dispose](): void {
    this.#client[Symbol.dispose]();
  }

  async #call(
    method: string,
    request: Uint8Array<ArrayBuffer>,
  ): Promise<Uint8Array<ArrayBuffer>> {
    return await this.#client.call(
      `/runtime.v1.RuntimeService/${method}`,
      request,
      AbortSignal.timeout(60_000),
    );
  }
}
