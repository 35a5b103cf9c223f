/**
 * A real API server in the namespace of a temporary host, which only programs
 * there reach: kubectl is its client, so that manifests are applied as users
 * do.
 *
 * ```ts ignore
 * await using api = await RealApiServer.start(hosts);
 * api.apply({ apiVersion: "v1", kind: "Pod", ... });
 * const kubeconfig = api.kubeconfigOf("multus");
 * ```
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import {
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../testing/capabilities.ts";
import { execIn } from "../../testing/exec_in.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import {
  DIRECTORY,
  needsApiServer,
  preparePrograms,
  type ProgramPlace,
  type Programs,
} from "./kube_apiserver.ts";
import { writeKubeconfig } from "../../kube/testing/kubeconfig.ts";
import { until } from "./eventually.ts";

const PORTS = [6443, 2379, 2380] as const;
/** How often kubectl asks a server that is slow. */
const MOST_ATTEMPTS = 5;
const KUBECTL = `${DIRECTORY}/kubectl`;

/** Skips tests that need an API server and kubectl where they are missing. */
export const needsKubectl: Needs = needsApiServer.ignore
  ? needsApiServer
  : ignoreUnless(isExecutable(KUBECTL), "needs kubectl");

/** An API server of one test, with RBAC. Its pods are objects only. */
export class RealApiServer implements AsyncDisposable {
  readonly #hosts: TestHosts;
  /** How it was started, and what else can be. */
  readonly programs: Programs;
  readonly #store: Deno.ChildProcess;
  #server: Deno.ChildProcess;

  private constructor(hosts: TestHosts, programs: Programs) {
    this.#hosts = hosts;
    this.programs = programs;
    this.#store = programs.startEtcd();
    this.#server = programs.startServer();
  }

  /**
   * Starts one, and waits until it is ready. Its files are in the hosts' directory.
   *
   * @param others Instead of a server on the loopback interface
   */
  static async start(
    hosts: TestHosts,
    others: Partial<ProgramPlace> = {},
  ): Promise<RealApiServer> {
    const directory = `${hosts.directory}/api`;
    Deno.mkdirSync(directory);
    const place = { directory, netns: hosts.host, ports: PORTS, ...others };
    const api = new RealApiServer(hosts, await preparePrograms(place));
    await api.#waitUntilReady();
    return api;
  }

  /** Ends the server as a crash does, and starts it again. */
  async restart(): Promise<void> {
    await end(this.#server);
    this.#server = this.programs.startServer();
    await this.#waitUntilReady();
  }

  /**
   * Runs kubectl as an administrator.
   *
   * @returns Its output
   * @throws {Error} If it fails
   */
  kubectl(...args: readonly string[]): string {
    return this.#kubectl(args, "");
  }

  /** Creates or changes objects. */
  apply(...objects: readonly JsonObject[]): void {
    const list = { apiVersion: "v1", kind: "List", items: objects };
    this.#kubectl(["apply", "--server-side", "-f", "-"], JSON.stringify(list));
  }

  /** Returns what kubectl gets. */
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  get(...args: readonly string[]): any {
    return JSON.parse(this.kubectl("get", "-o", "json", ...args));
  }

  /** Writes a kubeconfig with a token of a service account in `kube-system`; returns its path. */
  kubeconfigOf(account: string): string {
    const { url, caPem } = this.programs;
    const token = this.kubectl("create", "token", account, "-n", "kube-system")
      .trim();
    const target = { url, caPem, token, clientCert: { cert: "", key: "" } };
    const file = `${account}.kubeconfig`;
    return writeKubeconfig(target, this.#hosts.directory, "token", { file });
  }

  /** Ends both programs. */
  async [Symbol.asyncDispose](): Promise<void> {
    await end(this.#server);
    await end(this.#store);
  }

  #kubectl(args: readonly string[], stdin: string): string {
    const { host, directory } = this.#hosts;
    const input = {
      path: KUBECTL,
      args: [`--kubeconfig=${this.programs.kubeconfig}`, ...args],
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOME: directory },
      stdin,
    };
    for (let attempt = 1;; attempt++) {
      const { code, stdout, stderr } = execIn(host, input);
      if (code === 0) return stdout;
      // The server describes all kinds anew after each new one, and kubectl waits
      // 32 s for that, before it sends anything.
      const isSlow = /openapi\/v2.*Client\.Timeout exceeded/.test(stderr);
      if (isSlow && attempt < MOST_ATTEMPTS) continue;
      throw new Error(`kubectl ${args.join(" ")}: ${stderr}`);
    }
  }

  async #waitUntilReady(): Promise<void> {
    await until("the API server is ready", () => {
      try {
        this.kubectl("get", "--raw=/readyz");
        this.kubectl("get", "namespace", "kube-system");
        return true;
      } catch {
        return false;
      }
    });
  }
}

async function end(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended.
  }
  await child.status;
}
