/**
 * What multus on the node shows to the API server: the token of the installing
 * pod's service account, in a kubeconfig and in a file beside it.
 *
 * The kubelet renews the pod's token long before it expires, and so are the
 * copies, for as long as somebody watches. A token ends with its pod.
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
   * Sees to it that they are those of the service account.
   *
   * @throws {CniError} 4 or 5 if the service account cannot be read, or the
   *   files not be written; those that are there stay
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
    // First what the other one refers to.
    this.#token.ensure(`${token}\n`);
    this.#kubeconfig.ensure(kubeconfig);
  }
}

/**
 * Formats a kubeconfig, in JSON, which YAML includes.
 *
 * The token is in there too: `tokenFile` counts more, but means nothing to who
 * sees the node's files by other paths, as a container does.
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
