/**
 * Kubeconfig files for the API server of the tests.
 *
 * @module
 */

import { dump } from "js-yaml";
import { BASIC_USER } from "./access.ts";
import type { Certificate } from "./certificates.ts";

/** How the user of a kubeconfig authenticates. */
export type KubeconfigKind =
  /** `token`. */
  | "token"
  /** `tokenFile`: `token` in the directory. */
  | "tokenFile"
  /** Files `ca.crt`, `client.crt` and `client.key`, named relative to the directory. */
  | "clientCert"
  /** One file `client.pem` for certificate and key. */
  | "clientCertBundle"
  /** Certificate and key within. */
  | "clientCertData"
  /** `username` and `password`. */
  | "basic"
  /** `token`, and any server is trusted. */
  | "insecure"
  /** A script `credentials.sh` that prints the token in `exec-token`, and adds a line to `exec-calls`. */
  | "exec"
  /** Nothing. */
  | "none";

/** Options of a kubeconfig besides its kind. */
export interface KubeconfigOverrides {
  /** Name in the directory; `kubeconfig` if undefined. */
  readonly file?: string;
  /** YAML as Go tools write it, if undefined. */
  readonly format?: "yaml" | "json";
  /** A different server, such as a server that does not exist. */
  readonly server?: string;
  /** Replaces the token. */
  readonly token?: string;
  /** Replaces the client certificate. */
  readonly clientCert?: Certificate;
  /** Replaces and adds keys of the cluster; undefined removes a key. */
  readonly cluster?: Readonly<Record<string, unknown>>;
  /** Replaces and adds keys of the user; undefined removes a key. */
  readonly user?: Readonly<Record<string, unknown>>;
  /** Replaces and adds keys of the document; undefined removes a key. */
  readonly document?: Readonly<Record<string, unknown>>;
}

/** The server of a kubeconfig. */
export interface KubeconfigTarget {
  readonly url: string;
  /** Undefined without TLS. */
  readonly caPem: string | undefined;
  readonly token: string;
  readonly clientCert: Certificate;
}

/** Writes a kubeconfig and the files it names. @returns Its path */
export function writeKubeconfig(
  target: KubeconfigTarget,
  directory: string,
  kind: KubeconfigKind,
  overrides: KubeconfigOverrides,
): string {
  const { server: url = target.url, token = target.token } = overrides;
  const { clientCert = target.clientCert } = overrides;
  const proof = { ...target, url, token, clientCert };
  const document = toDocument(
    { ...clusterOf(proof, directory, kind), ...overrides.cluster },
    { ...userOf(proof, directory, kind), ...overrides.user },
  );
  const path = `${directory}/${overrides.file ?? "kubeconfig"}`;
  const text = format({ ...document, ...overrides.document }, overrides.format);
  Deno.writeTextFileSync(path, text, { mode: 0o600 });
  return path;
}

function toDocument(cluster: unknown, user: unknown): Record<string, unknown> {
  const context = { cluster: "local", user: "multus" };
  return {
    apiVersion: "v1",
    kind: "Config",
    preferences: {},
    clusters: [{ name: "local", cluster }],
    contexts: [{ name: "multus-context", context }],
    "current-context": "multus-context",
    users: [{ name: "multus", user }],
  };
}

/** As `sigs.k8s.io/yaml` does: keys sorted, lists not indented. */
function format(document: unknown, as: "yaml" | "json" = "yaml"): string {
  const plain = JSON.parse(JSON.stringify(document));
  if (as === "json") return JSON.stringify(plain);
  return dump(plain, { sortKeys: true, noArrayIndent: true, lineWidth: -1 });
}

function clusterOf(
  { url: server, caPem }: KubeconfigTarget,
  directory: string,
  kind: KubeconfigKind,
): Record<string, unknown> {
  if (kind === "insecure") return { server, "insecure-skip-tls-verify": true };
  if (caPem === undefined) return { server };
  if (kind !== "clientCert") {
    return { server, "certificate-authority-data": base64(caPem) };
  }
  Deno.writeTextFileSync(`${directory}/ca.crt`, caPem);
  return { server, "certificate-authority": "ca.crt" };
}

function userOf(
  { token, clientCert: { cert, key } }: KubeconfigTarget,
  directory: string,
  kind: KubeconfigKind,
): Record<string, unknown> {
  const write = (name: string, text: string): string => {
    Deno.writeTextFileSync(`${directory}/${name}`, text, { mode: 0o600 });
    return name;
  };
  switch (kind) {
    case "token":
    case "insecure":
      return { token };
    case "tokenFile":
      return { tokenFile: `${directory}/${write("token", `${token}\n`)}` };
    case "clientCert":
      return clientFiles(write("client.crt", cert), write("client.key", key));
    case "clientCertBundle": {
      const path = `${directory}/${write("client.pem", `${cert}${key}`)}`;
      return clientFiles(path, path);
    }
    case "clientCertData":
      return {
        "client-certificate-data": base64(cert),
        "client-key-data": base64(key),
      };
    case "basic":
      return BASIC_USER;
    case "exec":
      write("exec-token", token);
      return { exec: execOf(directory) };
    case "none":
      return {};
  }
}

function clientFiles(certificate: string, key: string): Record<string, string> {
  return { "client-certificate": certificate, "client-key": key };
}

/** Writes the script. Source: kubernetes client.authentication.k8s.io/v1 ExecCredential */
function execOf(directory: string): Record<string, unknown> {
  const apiVersion = "client.authentication.k8s.io/v1";
  const command = `${directory}/credentials.sh`;
  const script = `#!/bin/sh
echo called >> '${directory}/exec-calls'
printf '{"apiVersion":"${apiVersion}","kind":"ExecCredential","status":{"token":"%s"}}' \\
  "$(cat '${directory}/exec-token')"
`;
  Deno.writeTextFileSync(command, script, { mode: 0o755 });
  return {
    apiVersion,
    command,
    args: null,
    env: null,
    interactiveMode: "Never",
    provideClusterInfo: false,
  };
}

function base64(text: string): string {
  return new TextEncoder().encode(text).toBase64();
}
