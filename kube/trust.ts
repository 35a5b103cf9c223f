/**
 * Selects the authorities that may sign the API server's certificate.
 *
 * @module
 */

import type { Environment } from "../base/process/environment.ts";
import { ifPossible } from "../base/files/io.ts";
import type { Access } from "./access.ts";

/**
 * The distributions' certificate bundles.
 *
 * Source: Go crypto/x509 root_linux.go.
 */
const BUNDLES = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/pki/tls/cacert.pem",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

/**
 * The distributions' directories of certificates.
 *
 * Source: Go crypto/x509 root_linux.go.
 */
const DIRECTORIES = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/** Variables that configure Deno's roots; an empty store has none. */
const VARIABLES: Readonly<Record<string, string | undefined>> = {
  DENO_TLS_CA_STORE: "",
  DENO_CERT: undefined,
  NODE_EXTRA_CA_CERTS: undefined,
};

let hasNoRoots = false;

/**
 * Completes an access like Go: only its own authorities are trusted, or the
 * node's if it has none.
 *
 * @param env `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the node's paths, as in
 *   Go
 */
export function settleTrust(access: Access, env: Environment): Access {
  if (access.isInsecure || !access.server.startsWith("https:")) return access;
  dropDefaultRoots();
  const { caCerts } = access;
  return caCerts.length > 0
    ? access
    : { ...access, caCerts: readNodeRoots(env) };
}

/**
 * Removes Deno's default roots, which are Mozilla's or configured by the
 * environment, because Deno adds the given roots to them instead of replacing
 * them. They are global to the process, which loads them with its first TLS
 * connection.
 */
function dropDefaultRoots(): void {
  if (hasNoRoots) return;
  hasNoRoots = true;
  const names = Object.keys(VARIABLES);
  const before = names.map((name) => [name, Deno.env.get(name)] as const);
  setVariables(Object.entries(VARIABLES));
  try {
    Deno.createHttpClient({})[Symbol.dispose]();
  } finally {
    setVariables(before);
  }
}

function setVariables(
  variables: readonly (readonly [name: string, value: string | undefined])[],
): void {
  for (const [name, value] of variables) {
    if (value === undefined) Deno.env.delete(name);
    else Deno.env.set(name, value);
  }
}

/**
 * Reads the certificates of the node's authorities.
 *
 * Source: Go crypto/x509 root_unix.go `loadSystemRoots`.
 */
function readNodeRoots(env: Environment): string[] {
  const bundles = env["SSL_CERT_FILE"] ? [env["SSL_CERT_FILE"]] : BUNDLES;
  const directories = (env["SSL_CERT_DIR"] || DIRECTORIES.join(":")).split(":");
  const files = directories.flatMap(listFiles);
  const bundle = bundles.find((path) => readCertificates(path).length > 0);
  const found = [...bundle ? [bundle] : [], ...files].flatMap(readCertificates);
  return [...new Set(found)];
}

function listFiles(directory: string): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.map(({ name }) => `${directory}/${name}`);
}

/** Reads the certificates in a file; none if it cannot be read. */
function readCertificates(path: string): string[] {
  const text = ifPossible(() => Deno.readTextFileSync(path)) ?? "";
  return text.match(
    /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g,
  ) ?? [];
}
