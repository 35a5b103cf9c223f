import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { createLog } from "../../../base/log/log.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import {
  Credentials,
  formatServer,
  readCaBundle,
  readToken,
} from "./credentials.ts";
import type { CredentialOptions } from "./options.ts";
import type { Environment } from "../../../base/process/environment.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const ENV = {
  KUBERNETES_SERVICE_HOST: "fd00::1",
  KUBERNETES_SERVICE_PORT: "6443",
};

/** Writes the credentials of the directory `account`; returns the kubeconfig. */
function write(
  directory: ConfDirectory,
  options: Partial<CredentialOptions> = {},
): string {
  const credentials = new Credentials({
    serviceAccount: `${directory.path}/account`,
    directory: `${directory.path}/multus.d`,
    hostPath: "/etc/cni/net.d/multus.d/multus.kubeconfig",
    skipTlsVerify: false,
    env: ENV,
    isOptional: false,
    ...options,
  }, createLog({}, () => {}));
  credentials.ensure();
  return Deno.readTextFileSync(`${directory.path}/multus.d/multus.kubeconfig`);
}

Deno.test("Credentials.ensure() writes a kubeconfig", () => {
  using directory = new ConfDirectory({
    "account/token": "abc\n",
    "account/ca.crt": "CA",
  });
  assertEquals(JSON.parse(write(directory)), {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{
      name: "local",
      cluster: {
        server: "https://[fd00::1]:6443",
        "certificate-authority-data": "Q0E=",
      },
    }],
    users: [{
      name: "multus",
      user: { token: "abc", tokenFile: "/etc/cni/net.d/multus.d/token" },
    }],
    contexts: [{
      name: "multus-context",
      context: { cluster: "local", user: "multus" },
    }],
    "current-context": "multus-context",
  });
});

Deno.test("Credentials.ensure() does not require an unused CA", () => {
  using directory = new ConfDirectory({ "account/token": "abc" });
  assertThrows(() => write(directory), CniError, "ca.crt");
  const { clusters } = JSON.parse(write(directory, { skipTlsVerify: true }));
  assertEquals(clusters[0].cluster, {
    server: "https://[fd00::1]:6443",
    "insecure-skip-tls-verify": true,
  });
});

Deno.test("Credentials.ensure() keeps the existing kubeconfig if it cannot write a new one", () => {
  using directory = new ConfDirectory({
    "account/token": "abc",
    "multus.d/multus.kubeconfig": "good",
    "multus.d/token": "good",
  });
  assertThrows(() => write(directory));
  assertThrows(() => write(directory, { skipTlsVerify: true, env: {} }));
  for (const name of ["multus.kubeconfig", "token"]) {
    const text = Deno.readTextFileSync(`${directory.path}/multus.d/${name}`);
    assertEquals(text, "good");
  }
});

Deno.test("Credentials.ensure() succeeds without a service account if that is allowed", () => {
  using directory = new ConfDirectory({ "multus.d/multus.kubeconfig": "own" });
  assertEquals(write(directory, { isOptional: true }), "own");
  assertThrows(() => write(directory), CniError, "no token in");
});

Deno.test("formatServer() formats addresses of both families", async (t) => {
  const rows: [string, Environment, string][] = [
    ["IPv4", { KUBERNETES_SERVICE_HOST: "10.96.0.1" }, "https://10.96.0.1:443"],
    ["IPv6", { KUBERNETES_SERVICE_HOST: "fd00::1" }, "https://[fd00::1]:443"],
    [
      "IPv6 in brackets",
      { KUBERNETES_SERVICE_HOST: "[fd00::1]" },
      "https://[fd00::1]:443",
    ],
    [
      "a name",
      { KUBERNETES_SERVICE_HOST: "api.local" },
      "https://api.local:443",
    ],
    [
      "another protocol",
      { KUBERNETES_SERVICE_HOST: "a", KUBERNETES_SERVICE_PROTOCOL: "http" },
      "http://a:443",
    ],
  ];
  await eachRow(t, rows, ([, env, expected]) => {
    const server = formatServer({ KUBERNETES_SERVICE_PORT: "443", ...env });
    assertEquals(server, expected);
  });
});

Deno.test("formatServer() requires host and port", () => {
  const rows: Environment[] = [
    {},
    { KUBERNETES_SERVICE_HOST: "a" },
    { KUBERNETES_SERVICE_PORT: "443" },
    { KUBERNETES_SERVICE_HOST: "", KUBERNETES_SERVICE_PORT: "443" },
  ];
  for (const env of rows) {
    assertThrows(
      () => formatServer(env),
      CniError,
      "Cannot find the API server",
    );
  }
});

Deno.test("readToken() trims the token, and distinguishes an empty token from a missing one", () => {
  using directory = new ConfDirectory({
    token: " abc \n",
    "empty/token": "\n",
  });
  assertEquals(readToken(directory.path), "abc");
  assertEquals(readToken(`${directory.path}/none`), undefined);
  assertThrows(
    () => readToken(`${directory.path}/empty`),
    CniError,
    `Cannot use "${directory.path}/empty/token": it is empty`,
  );
});

Deno.test("readCaBundle() fails without the file", () => {
  using directory = new ConfDirectory({ "ca.crt": "CA" });
  assertEquals(new TextDecoder().decode(readCaBundle(directory.path)), "CA");
  assertThrows(() => readCaBundle("/nowhere"), CniError, "/nowhere/ca.crt");
});
