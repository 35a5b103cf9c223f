import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { createLog } from "../../../cni/log.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { Credentials } from "./credentials.ts";
import type { CredentialOptions } from "./options.ts";

const ENV = {
  KUBERNETES_SERVICE_HOST: "fd00::1",
  KUBERNETES_SERVICE_PORT: "6443",
};

/** Writes the credentials of the folder `account`; returns the kubeconfig. */
function write(
  folder: ConfFolder,
  options: Partial<CredentialOptions> = {},
): string {
  const credentials = new Credentials({
    serviceAccount: `${folder.path}/account`,
    folder: `${folder.path}/multus.d`,
    hostPath: "/etc/cni/net.d/multus.d/multus.kubeconfig",
    skipTlsVerify: false,
    env: ENV,
    isOptional: false,
    ...options,
  }, createLog({}, () => {}));
  credentials.ensure();
  return Deno.readTextFileSync(`${folder.path}/multus.d/multus.kubeconfig`);
}

Deno.test("Credentials.ensure() writes a kubeconfig", () => {
  using folder = new ConfFolder({
    "account/token": "abc\n",
    "account/ca.crt": "CA",
  });
  assertEquals(JSON.parse(write(folder)), {
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

Deno.test("Credentials.ensure() needs no CA that is not looked at", () => {
  using folder = new ConfFolder({ "account/token": "abc" });
  assertThrows(() => write(folder), CniError, "ca.crt");
  const { clusters } = JSON.parse(write(folder, { skipTlsVerify: true }));
  assertEquals(clusters[0].cluster, {
    server: "https://[fd00::1]:6443",
    "insecure-skip-tls-verify": true,
  });
});

Deno.test("Credentials.ensure() leaves what is there if it cannot do better", () => {
  using folder = new ConfFolder({
    "account/token": "abc",
    "multus.d/multus.kubeconfig": "good",
    "multus.d/token": "good",
  });
  assertThrows(() => write(folder));
  assertThrows(() => write(folder, { skipTlsVerify: true, env: {} }));
  for (const name of ["multus.kubeconfig", "token"]) {
    const text = Deno.readTextFileSync(`${folder.path}/multus.d/${name}`);
    assertEquals(text, "good");
  }
});

Deno.test("Credentials.ensure() does without a service account if it may", () => {
  using folder = new ConfFolder({ "multus.d/multus.kubeconfig": "own" });
  assertEquals(write(folder, { isOptional: true }), "own");
  assertThrows(() => write(folder), CniError, "there is no token in");
});
