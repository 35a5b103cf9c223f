import { assertEquals } from "@std/assert";
import { moduleCommand } from "../tests/_harness/as_module.ts";
import { CertificateAuthority } from "./testing/certificates.ts";
import type { KubeconfigKind } from "./testing/kubeconfig.ts";
import { KubeApi } from "./testing/kube_api.ts";
import { KubeScene } from "./testing/kube_scene.ts";
import { eachRow } from "../tests/_harness/table.ts";

/** Keys of a cluster without its own authorities. */
const NO_CA = {
  "certificate-authority": undefined,
  "certificate-authority-data": undefined,
};

/**
 * Cluster keys that select each transport: our own TLS, `fetch`, `node:https`.
 */
const TRANSPORTS: Readonly<
  Record<string, [kind: KubeconfigKind, cluster: Record<string, unknown>]>
> = {
  "our own": ["token", {}],
  "fetch": ["clientCertData", {}],
  "node:https": ["token", { "tls-server-name": KubeApi.serverName }],
};

/** A server, and files with its authority. */
class Scene implements AsyncDisposable {
  readonly #kube: KubeScene;
  /** Path of the server's authority. */
  readonly ca: string;

  private constructor(kube: KubeScene) {
    this.#kube = kube;
    this.ca = kube.directory.addFile("server-ca.pem", kube.api.caPem);
  }

  static async start(): Promise<Scene> {
    return new Scene(await KubeScene.start());
  }

  /** Reads a pod in a process with no other environment. */
  async ask(
    kind: KubeconfigKind,
    cluster: Readonly<Record<string, unknown>>,
    env: Readonly<Record<string, string>> = {},
  ): Promise<string> {
    const { api, directory } = this.#kube;
    const kubeconfig = api.writeKubeconfig(directory.path, kind, { cluster });
    const script = `
      import { openKubeClient } from "${import.meta.resolve("./client.ts")}";
      const env = Deno.env.toObject();
      const kubeconfig = ${JSON.stringify(kubeconfig)};
      using client = await openKubeClient({ kubeconfig, env });
      const format = (variables) =>
        JSON.stringify(Object.entries(variables).sort());
      await client.getPod("test", "p1", { perTryMs: 20_000, overallMs: 20_000 })
        .then(() => console.log("answered"), (e) => console.log(e.message));
      if (format(env) !== format(Deno.env.toObject())) console.log("the environment has changed");`;
    const command = await moduleCommand(script, {
      clearEnv: true,
      env: { DENO_DIR: await findDenoDir(), HOME: directory.path, ...env },
    });
    const { stdout, stderr } = await command.output();
    const decoder = new TextDecoder();
    const text = decoder.decode(stdout).trim() || decoder.decode(stderr);
    return text.replace(/^.*x509: certificate /, "");
  }

  /** Creates a directory with certificates. @returns The directory's path */
  addDirectory(): string {
    const path = `${this.#kube.directory.path}/certificates`;
    Deno.mkdirSync(path);
    Deno.writeTextFileSync(`${path}/README`, "no certificate");
    Deno.writeTextFileSync(`${path}/ca.pem`, this.#kube.api.caPem);
    return path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kube[Symbol.asyncDispose]();
  }
}

/** Finds the directory of downloaded modules. */
async function findDenoDir(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json"],
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout)).denoDir;
}

const UNKNOWN = "signed by unknown authority";

Deno.test("KubeClient trusts only the kubeconfig's authorities", async (t) => {
  await using scene = await Scene.start();
  const other = await CertificateAuthority.create("other");
  const isOther = { "certificate-authority-data": btoa(other.pem) };
  const rows: readonly [string, Record<string, string>][] = [
    ["nothing", {}],
    ["DENO_CERT", { DENO_CERT: scene.ca }],
    ["DENO_TLS_CA_STORE", {
      DENO_TLS_CA_STORE: "system",
      SSL_CERT_FILE: scene.ca,
    }],
    ["NODE_EXTRA_CA_CERTS", { NODE_EXTRA_CA_CERTS: scene.ca }],
    ["SSL_CERT_FILE", { SSL_CERT_FILE: scene.ca }],
  ];
  for (const [transport, [kind, cluster]] of Object.entries(TRANSPORTS)) {
    await eachRow(t, rows, async ([, env]) => {
      const keys = {
        ...cluster,
        "certificate-authority": undefined,
        ...isOther,
      };
      assertEquals(await scene.ask(kind, keys, env), UNKNOWN);
    }, ([name]) => `${transport}, environment with ${name}`);
    await t.step(`${transport}, environment with mistakes`, async () => {
      const env = { DENO_TLS_CA_STORE: "none", SSL_CERT_FILE: "/nowhere" };
      assertEquals(await scene.ask(kind, cluster, env), "answered");
    });
  }
});

Deno.test("KubeClient trusts the node's authorities if the kubeconfig has none", async (t) => {
  await using scene = await Scene.start();
  const directory = scene.addDirectory();
  const rows: readonly [string, Record<string, string>, string][] = [
    ["without the server's", {}, UNKNOWN],
    ["in SSL_CERT_FILE", { SSL_CERT_FILE: scene.ca }, "answered"],
    ["in SSL_CERT_DIR", { SSL_CERT_DIR: `/nowhere:${directory}` }, "answered"],
    [
      "none of which can be read",
      { SSL_CERT_FILE: "/nowhere", SSL_CERT_DIR: "/nowhere" },
      UNKNOWN,
    ],
    ["and not Deno's", { DENO_CERT: scene.ca }, UNKNOWN],
  ];
  for (const [transport, [kind, cluster]] of Object.entries(TRANSPORTS)) {
    await eachRow(t, rows, async ([, env, expected]) => {
      const keys = { ...cluster, ...NO_CA };
      assertEquals(await scene.ask(kind, keys, env), expected);
    }, ([name]) => `${transport}, ${name}`);
  }
});
