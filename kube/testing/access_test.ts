import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import {
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import { Asker, type AskerOptions } from "./asker.ts";
import {
  KubeApi,
  type KubeApiOptions,
  type KubeconfigKind,
} from "./kube_api.ts";
import { spawnIn } from "../../tests/_harness/spawn_in.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const POD = "/api/v1/namespaces/n/pods/p";
const SERVICE_ACCOUNT = "system:serviceaccount:kube-system:multus";

/** Sends a request as a user. */
async function askAs(
  api: KubeApi,
  options: Partial<AskerOptions>,
  path = POD,
): Promise<{ status: number; user: string | undefined; message: string }> {
  using asker = new Asker({ url: api.url, caPem: api.caPem, ...options });
  const { status, json } = await asker.ask("GET", path);
  const user = api.requests.at(-1)?.user;
  return { status, user, message: json.message ?? "" };
}

/** Sends a request to a server with its own certificate. */
async function askServer(
  options: KubeApiOptions,
  host?: string,
): Promise<number> {
  await using api = await KubeApi.start(options);
  const url = host === undefined ? api.url : `https://${host}:${api.port}`;
  return (await askAs(api, { url }, "/readyz")).status;
}

async function run(
  command: string,
  args: string[],
): Promise<{ stdout: string; stderr: string }> {
  const output = await new Deno.Command(command, { args }).output();
  const decoder = new TextDecoder();
  return {
    stdout: decoder.decode(output.stdout),
    stderr: decoder.decode(output.stderr),
  };
}

class TestDirectory implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "kube-api-test-" });

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

Deno.test("KubeApi authenticates its clients", async (t) => {
  await using api = await KubeApi.start();
  api.putPod({ metadata: { namespace: "n", name: "p" } });
  const { token, clientCert } = api;
  await t.step("by token", async () => {
    const { status, user } = await askAs(api, { token });
    assertEquals([status, user], [200, SERVICE_ACCOUNT]);
  });
  await t.step("by client certificate", async () => {
    const { status, user } = await askAs(api, { clientCert });
    assertEquals([status, user], [200, "multus"]);
  });
  await t.step("by another user's token or certificate", async () => {
    assertEquals((await askAs(api, { token: api.addToken("t") })).user, "t");
    const clientCert = await api.issueClientCert("c");
    assertEquals((await askAs(api, { clientCert })).user, "c");
  });
  await t.step("but not without credentials", async () => {
    const { status, message } = await askAs(api, {});
    assertEquals([status, message], [
      403,
      'pods "p" is forbidden: User "system:anonymous" cannot get resource ' +
      '"pods" in API group "" in the namespace "n"',
    ]);
    const other = await askAs(api, {}, "/apis/flowers/v1");
    assertEquals([other.status, other.message], [
      403,
      'forbidden: User "system:anonymous" cannot get path "/apis/flowers/v1"',
    ]);
    assertEquals((await askAs(api, {}, "/readyz")).status, 200);
  });
  await t.step("nor by an expired certificate", async () => {
    const notAfter = Date.now() - 1_000;
    const clientCert = await api.issueClientCert("c", { notAfter });
    assertEquals((await askAs(api, { clientCert })).status, 401);
  });
  await t.step("nor by a revoked token", async () => {
    const token = api.addToken();
    assertEquals((await askAs(api, { token })).status, 200);
    api.revokeToken(token);
    assertEquals((await askAs(api, { token })).status, 401);
    assertEquals((await askAs(api, { token }, "/readyz")).status, 401);
  });
});

Deno.test("KubeApi.forbid() forbids a verb on a resource", async (t) => {
  await using api = await KubeApi.start();
  api.putPod({ metadata: { namespace: "n", name: "p" } });
  using asker = new Asker(api);
  const nads = "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions";
  const rows: [string, string, string, string][] = [
    [
      ...["patch", "pods/status"] as const,
      `${POD}/status`,
      `pods "p" is forbidden: User "${SERVICE_ACCOUNT}" cannot patch ` +
      'resource "pods/status" in API group "" in the namespace "n"',
    ],
    [
      ...["list", "network-attachment-definitions", nads] as const,
      "network-attachment-definitions.k8s.cni.cncf.io is forbidden: " +
      `User "${SERVICE_ACCOUNT}" cannot list resource ` +
      '"network-attachment-definitions" in API group "k8s.cni.cncf.io" ' +
      "at the cluster scope",
    ],
  ];
  await eachRow(t, rows, async ([verb, resource, path, message]) => {
    api.forbid(verb, resource);
    const ask = (): ReturnType<Asker["ask"]> =>
      verb === "patch" ? asker.patch(path, {}) : asker.ask("GET", path);
    const { status, json } = await ask();
    assertEquals([status, json.reason, json.message], [
      ...[403, "Forbidden", message],
    ]);
    api.allow(verb, resource);
    assertEquals((await ask()).status, 200);
  }, ([verb, resource]) => `${verb} ${resource}`);
  await t.step("or everything", async () => {
    api.forbid("*", "*");
    assertEquals((await asker.ask("GET", POD)).status, 403);
  });
});

Deno.test("KubeApi has the certificate that a test chooses", async (t) => {
  await t.step("of its names and addresses", async () => {
    assertEquals(await askServer({}), 200);
    assertEquals(await askServer({}, "localhost"), 200);
  });
  await t.step("of another name", async () => {
    const serverNames = [KubeApi.serverName];
    const error = await assertRejects(() => askServer({ serverNames }));
    assertMatch(String((error as Error).cause ?? error), /not valid for name/);
  });
  await t.step("that has expired", async () => {
    const error = await assertRejects(() => askServer({ isExpired: true }));
    assertMatch(String((error as Error).cause ?? error), /expired/i);
  });
  await t.step("of an authority that clients must know", async () => {
    await using api = await KubeApi.start();
    using asker = new Asker({ url: api.url });
    const error = await assertRejects(() => asker.ask("GET", "/readyz"));
    assertMatch(String((error as Error).cause ?? error), /UnknownIssuer/);
  });
});

const openssl = ignoreUnless(hasCommand("openssl"), "needs openssl");

Deno.test({
  name: `KubeApi's certificates are valid for openssl${openssl.suffix}`,
  ignore: openssl.ignore,
  fn: async () => {
    await using api = await KubeApi.start();
    using directory = new TestDirectory();
    const ca = `${directory.path}/ca.crt`;
    const client = `${directory.path}/client.crt`;
    await Deno.writeTextFile(ca, api.caPem);
    await Deno.writeTextFile(client, api.clientCert.cert);
    const options = ["-x509_strict", "-purpose", "sslclient", "-CAfile", ca];
    const verified = await run("openssl", ["verify", ...options, client]);
    assertEquals(verified.stdout, `${client}: OK\n`);
    const { stdout } = await run("openssl", [
      ...["x509", "-in", client, "-noout", "-subject", "-issuer"],
    ]);
    assertEquals(
      stdout,
      "subject=O = system:multus, CN = multus\nissuer=CN = kubernetes\n",
    );
  },
});

const kubectl = ignoreUnless(hasCommand("kubectl"), "needs kubectl");

Deno.test({
  name: `KubeApi.writeKubeconfig() connects kubectl to it${kubectl.suffix}`,
  ignore: kubectl.ignore,
  fn: async (t) => {
    await using api = await KubeApi.start();
    api.putPod({ metadata: { namespace: "n", name: "p" } });
    const rows: [KubeconfigKind, string][] = [
      ["token", SERVICE_ACCOUNT],
      ["tokenFile", SERVICE_ACCOUNT],
      ["clientCert", "multus"],
      ["clientCertBundle", "multus"],
      ["clientCertData", "multus"],
      ["basic", "multus"],
      ["insecure", SERVICE_ACCOUNT],
      ["exec", SERVICE_ACCOUNT],
    ];
    for (const [kind, user] of rows) {
      await eachRow(t, ["yaml", "json"] as const, async (format) => {
        using directory = new TestDirectory();
        const path = api.writeKubeconfig(directory.path, kind, { format });
        const { stdout, stderr } = await run("kubectl", [
          ...[`--kubeconfig=${path}`, `--cache-dir=${directory.path}`],
          ...["-n", "n", "get", "pods", "-o", "name"],
        ]);
        assertEquals([stdout, stderr], ["pod/p\n", ""]);
        assertEquals(api.requests.at(-1)?.user, user);
        assertEquals(
          (await Deno.readTextFile(path)).startsWith("{"),
          format === "json",
        );
      }, (format) => `${kind}, in ${format}`);
    }
  },
});

Deno.test("KubeApi.writeKubeconfig() takes overrides", async () => {
  await using api = await KubeApi.start();
  using directory = new TestDirectory();
  const path = api.writeKubeconfig(directory.path, "token", {
    file: "other",
    format: "json",
    server: "https://127.0.0.1:1",
    token: "t",
    cluster: {
      "certificate-authority-data": undefined,
      "tls-server-name": "x",
    },
    user: { as: "somebody" },
    document: { "current-context": "nowhere" },
  });
  assertEquals(path, `${directory.path}/other`);
  const document = JSON.parse(await Deno.readTextFile(path));
  assertEquals(document.clusters[0].cluster, {
    server: "https://127.0.0.1:1",
    "tls-server-name": "x",
  });
  assertEquals(document.users[0].user, { token: "t", as: "somebody" });
  assertEquals(document["current-context"], "nowhere");
});

Deno.test("KubeApi returns the variables with which pods find it", async () => {
  await using api = await KubeApi.start();
  using directory = new TestDirectory();
  api.writeServiceAccount(directory.path);
  const read = (name: string): string =>
    Deno.readTextFileSync(`${directory.path}/${name}`);
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = api
    .inClusterEnvironment();
  const { status } = await askAs(api, {
    url: `https://${host}:${port}`,
    caPem: read("ca.crt"),
    token: read("token"),
  }, "/version");
  assertEquals(status, 200);
  assertEquals(read("namespace"), "kube-system");
});

rootTest("KubeApi serves a namespace, and nothing else", async () => {
  using hosts = TestHosts.create();
  await using api = await KubeApi.start({ netns: hosts.host });
  const script = `
      const client = Deno.createHttpClient({ caCerts: [Deno.args[1]] });
      console.log((await fetch(Deno.args[0], { client })).status);
    `;
  const args = [
    "eval",
    "--no-config",
    script,
    `${api.url}/readyz`,
    api.caPem,
  ];
  const input = { path: Deno.execPath(), args, env: {}, stdin: "" };
  const { stdout, stderr } = await spawnIn(hosts.host, input).output;
  assertEquals([stdout, stderr], ["200\n", ""]);
  await assertRejects(() => askAs(api, {}, "/readyz"));
  const elsewhere = await spawnIn(hosts.sandbox, input).output;
  assertStringIncludes(elsewhere.stderr, "fetch failed");
  await api.restart();
  assertEquals((await spawnIn(hosts.host, input).output).stdout, "200\n");
});

Deno.test("KubeApi creates keys and certificates once, because that is slow", async () => {
  await using first = await KubeApi.start();
  await using second = await KubeApi.start();
  assertEquals(second.caPem, first.caPem);
  assertEquals(second.clientCert, first.clientCert);
});
