/**
 * A real API server with etcd, for tests that must not trust the server of
 * kube_api.ts. `CNI_KUBE_APISERVER_DIR` names the directory of the executables
 * `kube-apiserver` and `etcd`; without it, these tests are skipped.
 *
 * @module
 */

import { loadAll } from "js-yaml";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { type KubeClient, openKubeClient } from "../../kube/client.ts";
import { KubeError } from "../../kube/kube_error.ts";
import {
  ignoreUnless,
  isExecutable,
  type Needs,
} from "../../testing/capabilities.ts";
import { eventually } from "./eventually.ts";
import { CertificateAuthority } from "../../kube/testing/certificates.ts";
import { writeKubeconfig } from "../../kube/testing/kubeconfig.ts";
import { killIfAlive } from "./process_group.ts";

/** Directory of the executables. */
export const DIRECTORY: string = Deno.env.get("CNI_KUBE_APISERVER_DIR") ?? "";

/** Skips what needs a real API server where there is none. */
export const needsApiServer: Needs = ignoreUnless(
  ["kube-apiserver", "etcd"].every((name) =>
    isExecutable(`${DIRECTORY}/${name}`)
  ),
  "needs CNI_KUBE_APISERVER_DIR",
);

/** An API server on the loopback interface. */
export class KubeApiServer implements AsyncDisposable {
  /** The directory of its files, removed in the end. */
  readonly directory: string;
  /** `https://127.0.0.1:PORT`. */
  readonly url: string;
  /** The authority's certificate as PEM. */
  readonly caPem: string;
  /** Kubeconfig of a member of `system:masters`. */
  readonly kubeconfig: string;
  /** A client with that kubeconfig. */
  readonly client: KubeClient;
  readonly #processes: readonly Deno.ChildProcess[];

  private constructor(
    parts: Pick<
      KubeApiServer,
      "directory" | "url" | "caPem" | "kubeconfig" | "client"
    >,
    processes: readonly Deno.ChildProcess[],
  ) {
    this.directory = parts.directory;
    this.url = parts.url;
    this.caPem = parts.caPem;
    this.kubeconfig = parts.kubeconfig;
    this.client = parts.client;
    this.#processes = processes;
  }

  /**
   * Starts an empty cluster, and waits until it is ready.
   *
   * @param directory The directory of its files; a new one if undefined
   */
  static async start(
    directory: string = Deno.makeTempDirSync({ prefix: "cni-apiserver-" }),
  ): Promise<KubeApiServer> {
    const programs = await preparePrograms({ directory, ports: freePorts(3) });
    const { url, caPem, kubeconfig } = programs;
    const processes = [programs.startEtcd(), programs.startServer()];
    const client = await openKubeClient({ kubeconfig, env: {} });
    if (client === undefined) throw new Error("a kubeconfig has a client");
    const parts = { directory, url, caPem, kubeconfig, client };
    const server = new KubeApiServer(parts, processes);
    try {
      await eventually("the API server is ready", () => server.#isReady());
      return server;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Creates an object; fails on keys that the server does not know. */
  async create(path: string, object: object): Promise<void> {
    const query = { fieldValidation: "Strict" };
    await this.client.request({ method: "POST", path, query, body: object });
  }

  /** Returns a token of a service account. */
  async tokenOf(namespace: string, name: string): Promise<string> {
    const account = `/api/v1/namespaces/${namespace}/serviceaccounts/${name}`;
    const { status: { token } } = await this.client.request<
      { readonly status: { readonly token: string } }
    >({ method: "POST", path: `${account}/token`, body: TOKEN_REQUEST });
    return token;
  }

  /** Writes a kubeconfig for a service account. @returns Its path */
  async kubeconfigOf(namespace: string, name: string): Promise<string> {
    const token = await this.tokenOf(namespace, name);
    const clientCert = { cert: "", key: "" };
    const target = { url: this.url, caPem: this.caPem, token, clientCert };
    return writeKubeconfig(target, this.directory, "token", {
      file: `${namespace}-${name}.kubeconfig`,
    });
  }

  async #isReady(): Promise<boolean> {
    try {
      await this.client.request({ path: "/api/v1/namespaces/kube-system" });
      return true;
    } catch (error) {
      if (error instanceof KubeError) return false;
      throw error;
    }
  }

  /** Ends the processes, and removes the directory. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.client[Symbol.dispose]();
    for (const { pid, status } of [...this.#processes].reverse()) {
      killIfAlive(pid);
      await status;
    }
    Deno.removeSync(this.directory, { recursive: true });
  }
}

const TOKEN_REQUEST = {
  apiVersion: "authentication.k8s.io/v1",
  kind: "TokenRequest",
  spec: { expirationSeconds: 3600 },
};

/** Flags of a program, without the dashes. */
export type Flags = Readonly<Record<string, string>>;

/** Where etcd and an API server run. */
export interface ProgramPlace {
  /** Directory of their files. */
  readonly directory: string;
  /** Ports of the server, of etcd, and of etcd for other members. */
  readonly ports: readonly number[];
  /** Network namespace; the machine's if undefined. */
  readonly netns?: NetNs;
  /** Address of the server; loopback's if undefined. */
  readonly address?: string;
  /** Replaces and adds flags of the server. */
  readonly flags?: Flags;
}

/** etcd and an API server that can be started, and an administrator's access. */
export interface Programs
  extends Pick<KubeApiServer, "url" | "caPem" | "kubeconfig"> {
  /** Signs what the server trusts. */
  readonly authority: CertificateAuthority;
  /** Starts etcd. */
  startEtcd(): Deno.ChildProcess;
  /** Starts the API server, also again after it was killed. */
  startServer(): Deno.ChildProcess;
  /** Starts another program of the directory in the same place. */
  start(program: string, flags: Flags): Deno.ChildProcess;
}

/** Writes the credentials of an API server. */
export async function preparePrograms(place: ProgramPlace): Promise<Programs> {
  const { directory, address = "127.0.0.1" } = place;
  const [port, etcdPort, peerPort] = place.ports;
  const authority = await CertificateAuthority.create("kube-ca");
  const { cert, key } = await authority.issue({
    commonName: "kube-apiserver",
    usage: "server",
    dnsNames: ["localhost"],
    ipAddresses: [address],
  });
  const clientCert = await authority.issue({
    commonName: "admin",
    organizations: ["system:masters"],
    usage: "client",
  });
  const caPem = authority.pem;
  const files = {
    "ca.crt": caPem,
    "server.crt": cert,
    "server.key": key,
    "admin.crt": clientCert.cert,
    "admin.key": clientCert.key,
  };
  for (const [name, text] of Object.entries(files)) {
    await Deno.writeTextFile(`${directory}/${name}`, text);
  }
  const etcd = `http://127.0.0.1:${etcdPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  const url = `https://${address}:${port}`;
  const target = { url, caPem, token: "", clientCert };
  return {
    url,
    caPem,
    authority,
    kubeconfig: writeKubeconfig(target, directory, "clientCertData", {}),
    startEtcd: () =>
      start(place, "etcd", {
        "data-dir": "etcd",
        "name": "test",
        "listen-client-urls": etcd,
        "advertise-client-urls": etcd,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": `test=${peer}`,
        "unsafe-no-fsync": "true",
      }),
    startServer: () =>
      start(place, "kube-apiserver", {
        "etcd-servers": etcd,
        "bind-address": address,
        "advertise-address": "10.96.255.254",
        "endpoint-reconciler-type": "none",
        "secure-port": `${port}`,
        "tls-cert-file": "server.crt",
        "tls-private-key-file": "server.key",
        "cert-dir": ".",
        "client-ca-file": "ca.crt",
        // Any key pair does.
        "service-account-key-file": "server.crt",
        "service-account-signing-key-file": "server.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "authorization-mode": "Node,RBAC",
        // Nobody makes the service accounts of new namespaces.
        "disable-admission-plugins": "ServiceAccount",
        "service-cluster-ip-range": "10.96.0.0/16",
        "allow-privileged": "true",
        ...place.flags,
      }),
    start: (program, flags) => start(place, program, flags),
  };
}

function start(
  { directory, netns }: ProgramPlace,
  program: string,
  flags: Flags,
): Deno.ChildProcess {
  // It ends with the tests, even if those are killed.
  const script = `exec setpriv --pdeathsig=KILL "$0" "$@" 2>>"${program}.log"`;
  const args = Object.entries(flags).map(([key, value]) => `--${key}=${value}`);
  const command = new Deno.Command("sh", {
    args: ["-c", script, `${DIRECTORY}/${program}`, ...args],
    cwd: directory,
    stdin: "null",
    stdout: "null",
  });
  return netns === undefined
    ? command.spawn()
    : inNetns(netns, () => command.spawn());
}

function freePorts(count: number): number[] {
  const listeners = Array.from(
    { length: count },
    () => Deno.listen({ hostname: "127.0.0.1", port: 0 }),
  );
  const ports = listeners.map(({ addr }) => addr.port);
  for (const listener of listeners) listener.close();
  return ports;
}

/** Creates the objects of a manifest. */
export async function createAll(
  server: KubeApiServer,
  manifest: string,
): Promise<void> {
  for (const object of loadAll(manifest)) {
    await server.create(pathOf(object as Manifest), object as object);
  }
}

// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
type Manifest = any;

/** Returns the path of an object's collection. */
function pathOf({ apiVersion, kind, metadata }: Manifest): string {
  const root = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
  const { namespace } = metadata;
  const place = namespace ? `${root}/namespaces/${namespace}` : root;
  return `${place}/${kind.toLowerCase()}s`;
}
