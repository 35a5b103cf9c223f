import { assert, assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../base/error.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import type { Access } from "./access.ts";
import { readKubeconfig } from "./kubeconfig.ts";
import { eachRow } from "../tests/_harness/table.ts";

const CERTIFICATE =
  "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";

type Keys = Readonly<Record<string, unknown>>;

/** Builds a kubeconfig with a cluster, a user and a context. */
function makeDocument(
  cluster: Keys,
  user: Keys = {},
  document: Keys = {},
): Keys {
  return {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "here",
    contexts: [{ name: "here", context: { cluster: "c", user: "u" } }],
    clusters: [
      { name: "other", cluster: { server: "https://other" } },
      { name: "c", cluster: { server: "https://10.0.0.1:6443", ...cluster } },
    ],
    users: [{ name: "u", user }],
    ...document,
  };
}

async function read(
  directory: PluginDirectory,
  document: unknown,
): Promise<Access> {
  const path = directory.addFile("kubeconfig", JSON.stringify(document), 0o600);
  return await readKubeconfig(path, {});
}

Deno.test("readKubeconfig() reads the cluster of the current context", async (t) => {
  using directory = new PluginDirectory();
  directory.addFile("ca.crt", CERTIFICATE);
  const rows: readonly [string, Keys, Partial<Access>][] = [
    ["server", {}, { server: "https://10.0.0.1:6443", caCerts: [] }],
    ["with a path", { server: "https://r/k8s/clusters/c-1/" }, {
      server: "https://r/k8s/clusters/c-1",
    }],
    ["without a scheme", { server: "10.0.0.1:6443" }, {
      server: "https://10.0.0.1:6443",
    }],
    ["without TLS", { server: "http://[::1]:8080" }, {
      server: "http://[::1]:8080",
    }],
    ["authority in a file", { "certificate-authority": "ca.crt" }, {
      caCerts: [CERTIFICATE],
    }],
    ["authority", { "certificate-authority-data": btoa(CERTIFICATE) }, {
      caCerts: [CERTIFICATE],
    }],
    ["insecure", { "insecure-skip-tls-verify": true }, { isInsecure: true }],
    ["server name", { "tls-server-name": "k" }, { tlsServerName: "k" }],
    ["proxy", { "proxy-url": "socks5://a:b@10.0.0.2:1080" }, {
      proxyUrl: "socks5://a:b@10.0.0.2:1080",
    }],
    ["nothing where there is no text", {
      "certificate-authority": "",
      "tls-server-name": "",
      "proxy-url": null,
    }, { caCerts: [], isInsecure: false }],
    ["keys in any case", { "TLS-Server-Name": "k" }, { tlsServerName: "k" }],
  ];
  await eachRow(t, rows, async ([, cluster, expected]) => {
    const access = await read(directory, makeDocument(cluster));
    for (const [key, value] of Object.entries(expected)) {
      assertEquals(access[key as keyof Access], value);
    }
    assertEquals("proxyUrl" in access, "proxyUrl" in expected);
  });
  await t.step("a context without a user", async () => {
    const contexts = [{ name: "here", context: { cluster: "c" } }];
    const access = await read(directory, makeDocument({}, {}, { contexts }));
    assertEquals(access.credentials.known, {});
  });
});

Deno.test("readKubeconfig() reads YAML", async () => {
  using directory = new PluginDirectory();
  const path = directory.addFile(
    "kubeconfig",
    `# by hand
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "https://10.0.0.1:6443"}
contexts:
- {name: here, context: {cluster: c, user: u}}
current-context: here
users:
- name: u
  user:
    token: t1
`,
  );
  const { server, credentials } = await readKubeconfig(path, {});
  assertEquals([server, credentials.known], ["https://10.0.0.1:6443", {
    authorization: "Bearer t1",
  }]);
});

Deno.test("readKubeconfig() reports problems without secrets", async (t) => {
  using directory = new PluginDirectory();
  const named = (name: string): Keys => ({
    contexts: [{
      name: "here",
      context: { cluster: "c", user: "u", ...{ [name]: "x" } },
    }],
  });
  const rows: readonly [string, unknown, string][] = [
    ["nothing", {}, "current-context: missing"],
    [
      "no context",
      makeDocument({}, {}, { contexts: null }),
      'contexts: there is no context "here"',
    ],
    [
      "no cluster",
      makeDocument({}, {}, named("cluster")),
      'clusters: there is no cluster "x"',
    ],
    [
      "no user",
      makeDocument({}, {}, named("user")),
      'users: there is no user "x"',
    ],
    ["no server", makeDocument({ server: "" }), "server: missing"],
    [
      "server of another kind",
      makeDocument({ server: "ftp://x" }),
      'server: "ftp://x" is not an http or https URL',
    ],
    [
      "server with a password",
      makeDocument({ server: "https://a:secret@x" }),
      "server: only a host, a port and a path are allowed",
    ],
    [
      "proxy of another kind",
      makeDocument({ "proxy-url": "ftp://a:secret@x" }),
      "proxy-url: it is not the URL of an http or socks5 proxy",
    ],
    [
      "authority for nothing",
      makeDocument({
        "insecure-skip-tls-verify": true,
        "certificate-authority-data": btoa(CERTIFICATE),
      }),
      "specifying a root certificates file with the insecure flag is not allowed",
    ],
    [
      "authority that is not there",
      makeDocument({ "certificate-authority": "none" }),
      `certificate-authority: "${directory.path}/none" cannot be read`,
    ],
    [
      "token of the wrong type",
      makeDocument({}, { token: 12345 }),
      "decode: users[0].user.token: expected a string, got a number",
    ],
    [
      "flag of the wrong type",
      makeDocument({ "insecure-skip-tls-verify": "secret" }),
      "decode: clusters[1].cluster.insecure-skip-tls-verify: expected a boolean, got a string",
    ],
    ["a list", [], "decode: expected an object, got an array"],
  ];
  await eachRow(t, rows, async ([, document, why]) => {
    const error = await assertRejects(
      () => read(directory, document),
      CniError,
    );
    const what = `kubeconfig "${directory.path}/kubeconfig"`;
    const message = why.startsWith("decode: ")
      ? why.replace("decode", `Cannot decode ${what}`)
      : `Cannot use ${what}: ${why}`;
    assertEquals([error.code, error.message], [7, message]);
    assert(!error.toString().includes("secret"), error.toString());
  });
});

Deno.test("readKubeconfig() fails without a readable file", async (t) => {
  using directory = new PluginDirectory();
  const rows = [
    ["not there", undefined, "Cannot use kubeconfig", "it cannot be read"],
    ["empty", "", "Cannot use kubeconfig", "current-context: missing"],
    ["binary", "\u0000secret", "Cannot parse kubeconfig", "line 1, column 1"],
    [
      "text",
      "secret",
      "Cannot decode kubeconfig",
      "expected an object, got a string",
    ],
  ] as const;
  await eachRow(t, rows, async ([name, content, start, end]) => {
    const path = `${directory.path}/${name}`;
    if (content !== undefined) directory.addFile(name, content);
    const error = await assertRejects(
      () => readKubeconfig(path, {}),
      CniError,
    );
    assertEquals(error.code, 7);
    assert(error.message.startsWith(`${start} "${path}": `), error.message);
    assert(error.message.endsWith(end), error.message);
    assert(!error.toString().includes("secret"), error.toString());
  });
});
