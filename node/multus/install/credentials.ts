/**
 * The node's credentials for the API server: the token of the installing pod's
 * service account, in a kubeconfig and in a file beside it.
 *
 * The kubelet renews the pod's token long before it expires, and the installer
 * updates the copies while it watches. A token is only valid as long as its
 * pod.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import type { Log } from "../../../cni/log.ts";
import { type CredentialOptions, hostPathOfToken } from "./options.ts";
import { PlacedFile } from "./placed_file.ts";
import { formatServer, readCaBundle, readToken } from "./service_account.ts";

/** The kubeconfig and the token on the node. */
export class Credentials {
  readonly #options: CredentialOptions;
  readonly #kubeconfig: PlacedFile;
  readonly #token: PlacedFile;

  /** Nothing is read or written yet. */
  constructor(options: CredentialOptions, log: Log) {
    const place = (name: string): PlacedFile =>
      new PlacedFile(join(options.folder, name), log);
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
        `Cannot make a kubeconfig: there is no token in "${serviceAccount}"`,
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
