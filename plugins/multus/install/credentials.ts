/**
 * The node's credentials for the API server: the token of the installing pod's
 * service account, in a kubeconfig and in a file next to it.
 *
 * The kubelet renews the pod's token long before it expires, and the installer
 * updates the copies while it watches. A token is only valid as long as its
 * pod.
 *
 * @module
 */

import { join } from "@std/path/posix";
import type { Environment } from "../../../base/process/environment.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { withIoFailure } from "../../../base/files/io.ts";
import type { Log } from "../../../base/log/log.ts";
import { findServer } from "../../../kube/in_cluster.ts";
import { type CredentialOptions, hostPathOfToken } from "./options.ts";
import { PlacedFile, readIfThere } from "./placed_file.ts";

/** The kubeconfig and the token on the node. */
export class Credentials {
  readonly #options: CredentialOptions;
  readonly #kubeconfig: PlacedFile;
  readonly #token: PlacedFile;

  /** Neither reads nor writes yet. */
  constructor(options: CredentialOptions, log: Log) {
    const place = (name: string): PlacedFile =>
      new PlacedFile(join(options.directory, name), log);
    this.#options = options;
    this.#kubeconfig = place("multus.kubeconfig");
    this.#token = place("token");
  }

  /**
   * Ensures that the files match the service account.
   *
   * @throws {CniError} 4 or 5 if the service account cannot be read, or the
   *   files cannot be written; the existing files stay
   */
  ensure(): void {
    const { serviceAccount, isOptional } = this.#options;
    const token = readToken(serviceAccount);
    if (token === undefined && isOptional) return;
    if (token === undefined) {
      throw new CniError(
        ErrorCode.IoFailure,
        `Cannot write a kubeconfig: no token in "${serviceAccount}"`,
      );
    }
    const kubeconfig = formatKubeconfig(token, this.#options);
    // The token comes first, because the kubeconfig refers to it.
    this.#token.ensure(`${token}\n`);
    this.#kubeconfig.ensure(kubeconfig);
  }
}

/**
 * Formats a kubeconfig as JSON, which is valid YAML.
 *
 * It also contains the token: `tokenFile` takes precedence, but its path is not
 * valid in a container, which sees the node's files elsewhere.
 */
function formatKubeconfig(token: string, options: CredentialOptions): string {
  const trust = options.skipTlsVerify ? { "insecure-skip-tls-verify": true } : {
    "certificate-authority-data": readCaBundle(options.serviceAccount)
      .toBase64(),
  };
  const cluster = { server: formatServer(options.env), ...trust };
  const user = { token, tokenFile: hostPathOfToken(options) };
  const context = { cluster: "local", user: "multus" };
  const document = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "local", cluster }],
    users: [{ name: "multus", user }],
    contexts: [{ name: "multus-context", context }],
    "current-context": "multus-context",
  };
  return JSON.stringify(document, null, 2) + "\n";
}

/**
 * Reads the token that authenticates multus.
 *
 * @param directory Mount point of the service account
 * @returns Undefined if it does not exist
 * @throws {CniError} 5 if it cannot be read, or is empty
 */
export function readToken(directory: string): string | undefined {
  const path = join(directory, "token");
  const token = readIfThere(path)?.trim();
  if (token !== "") return token;
  throw new CniError(ErrorCode.IoFailure, `Cannot use "${path}": it is empty`);
}

/**
 * Reads the authorities that sign the API server's certificate.
 *
 * @param directory Mount point of the service account
 * @returns PEM
 * @throws {CniError} 5 if they cannot be read
 */
export function readCaBundle(directory: string): Uint8Array {
  const path = join(directory, "ca.crt");
  return withIoFailure(`read "${path}"`, () => Deno.readFileSync(path));
}

/**
 * Returns the API server's URL; the environment can set the protocol.
 *
 * @throws {CniError} 4 if the environment lacks the address
 */
export function formatServer(env: Environment): string {
  const protocol = env["KUBERNETES_SERVICE_PROTOCOL"] || "https";
  const server = findServer(env, protocol);
  if (server !== undefined) return server;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    "Cannot find the API server: KUBERNETES_SERVICE_HOST or " +
      "KUBERNETES_SERVICE_PORT is not set",
  );
}
