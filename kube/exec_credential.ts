/**
 * Credentials from a program, such as a cloud provider's.
 *
 * Source: client-go plugin/pkg/client/auth/exec/exec.go;
 * k8s.io/client-go/pkg/apis/clientauthentication/v1/types.go.
 *
 * @module
 */

import * as z from "zod/mini";
import type { Environment } from "../base/process/environment.ts";
import { describeError } from "../base/error.ts";
import { deadline } from "../base/deadline.ts";
import {
  decode,
  type JsonObject,
  omitAbsent,
  once,
  type SchemaOutput,
} from "../base/json/json.ts";
import { withoutSlot } from "../base/long_wait.ts";
import { type ProcessResult, runToEnd } from "../base/process/child.ts";
import type {
  ClientCertificate,
  Credentials,
  CredentialSource,
} from "./access.ts";
import { bearer } from "./credentials.ts";
import type { ClusterEntry, ExecEntry } from "./kubeconfig_schema.ts";
import {
  type Origin,
  readPem,
  resolveIn,
  unusable,
} from "./referenced_value.ts";

/** The supported versions of the document. */
const VERSIONS: readonly string[] = [
  "client.authentication.k8s.io/v1",
  "client.authentication.k8s.io/v1beta1",
];

/** Time limit of a program, in milliseconds. */
const TIMEOUT_MS = 10_000;

/** Maximum length of a failed program's stderr in messages, in characters. */
const STDERR_LENGTH = 500;

/** Options for running the program. */
export interface ExecOptions {
  readonly exec: ExecEntry;
  readonly cluster: ClusterEntry;
  /** The program's environment, to which the kubeconfig may add variables. */
  readonly env: Environment;
  /** The user's other credentials. */
  readonly own: CredentialSource;
  /** Time limit of the program, in milliseconds; 10 s by default. */
  readonly timeoutMs?: number;
}

/** Credentials that a program prints; it runs again when they have expired. */
export class ExecCredentials implements CredentialSource {
  readonly #origin: Origin;
  readonly #options: ExecOptions;
  #run: Promise<Credentials> | undefined;
  #current: Credentials | undefined;
  #expiresAtMs = Infinity;

  /**
   * Checks the configuration of the program.
   *
   * @throws {CniError} 7 if the program cannot be run
   */
  constructor(origin: Origin, options: ExecOptions) {
    const { apiVersion = "", command, interactiveMode } = options.exec;
    if (!command) throw unusable(origin, "exec.command: missing");
    if (!VERSIONS.includes(apiVersion)) {
      const known = VERSIONS.join(" or ");
      throw unusable(origin, `exec.apiVersion: it must be ${known}`);
    }
    if (interactiveMode === "Always") {
      throw unusable(origin, "exec.interactiveMode: Always is not supported");
    }
    this.#origin = origin;
    this.#options = options;
  }

  /** Undefined: the program only runs on `get()`. */
  get known(): undefined {
    return undefined;
  }

  /** Returns the program's credentials, and runs it if necessary. */
  get(): Promise<Credentials> {
    if (Date.now() >= this.#expiresAtMs) this.#forget();
    // Concurrent callers wait for the same run.
    return this.#run ??= withoutSlot(() => this.#load());
  }

  /** Makes the next `get()` run the program. */
  renew(refused: Credentials): void {
    if (refused === this.#current) this.#forget();
  }

  #forget(): void {
    this.#run = this.#current = undefined;
    this.#expiresAtMs = Infinity;
  }

  async #load(): Promise<Credentials> {
    try {
      const { exec, own } = this.#options;
      const printed = decodeExecCredential(await this.#print(), exec);
      this.#expiresAtMs = printed.expiresAtMs;
      this.#current = { ...await own.get(), ...printed.credentials };
      return this.#current;
    } catch (error) {
      this.#forget();
      throw error;
    }
  }

  /** Runs the program; returns its output. */
  async #print(): Promise<string> {
    const { timeoutMs = TIMEOUT_MS } = this.#options;
    const child = this.#start();
    const ending = await runToEnd(
      child,
      new Uint8Array(),
      deadline(timeoutMs),
    );
    if (ending.success) return ending.stdout;
    throw this.#failure(
      ending.abort === undefined
        ? `failed: ${describeEnding(ending)}`
        : `took more than ${timeoutMs} ms`,
    );
  }

  #start(): Deno.ChildProcess {
    const { exec, env } = this.#options;
    const added = exec.env?.map(({ name, value }) => [name, value]) ?? [];
    try {
      return new Deno.Command(this.#command, {
        args: exec.args ?? [],
        env: {
          ...env,
          ...Object.fromEntries(added),
          KUBERNETES_EXEC_INFO: JSON.stringify(this.#describeRequest()),
        },
        clearEnv: true,
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
        // The program leads a process group, which is killed on timeout.
        detached: true,
      }).spawn();
    } catch (error) {
      throw this.#failure("cannot be started", error);
    }
  }

  /** A relative command with a slash is relative to the kubeconfig's directory. */
  get #command(): string {
    const { command = "" } = this.#options.exec;
    return command.includes("/") ? resolveIn(this.#origin, command) : command;
  }

  #describeRequest(): JsonObject {
    const { exec, cluster } = this.#options;
    return {
      apiVersion: exec.apiVersion ?? "",
      kind: "ExecCredential",
      spec: {
        interactive: false,
        ...exec.provideClusterInfo
          ? { cluster: describeCluster(this.#origin, cluster) }
          : {},
      },
    };
  }

  #failure(why: string, cause?: unknown): Error {
    const { command = "", installHint } = this.#options.exec;
    const hint = installHint ? `; ${installHint.trim()}` : "";
    const reason = cause === undefined ? "" : `: ${describeError(cause)}`;
    return new Error(`exec: executable ${command} ${why}${reason}${hint}`);
  }
}

function describeEnding({ cause, stderr }: ProcessResult): string {
  const said = stderr.trim().slice(-STDERR_LENGTH);
  return said === "" ? cause : `${cause}: ${said}`;
}

/** The cluster's extension that configures the program. */
const CLUSTER_EXTENSION = "client.authentication.k8s.io/exec";

/** Describes the cluster to the program, with the authority's certificate. */
function describeCluster(origin: Origin, cluster: ClusterEntry): JsonObject {
  const ca = readPem(origin, {
    key: "certificate-authority",
    file: cluster["certificate-authority"],
    data: cluster["certificate-authority-data"],
  }, "CERTIFICATE");
  const config = cluster.extensions
    ?.find(({ name }) => name === CLUSTER_EXTENSION)?.extension;
  return omitAbsent<JsonObject>({
    server: cluster.server,
    "tls-server-name": cluster["tls-server-name"],
    "insecure-skip-tls-verify": cluster["insecure-skip-tls-verify"],
    "certificate-authority-data": ca === undefined
      ? undefined
      : new TextEncoder().encode(ca).toBase64(),
    "proxy-url": cluster["proxy-url"],
    config: config as JsonObject | undefined,
  });
}

const documentSchema = once(() =>
  z.object({
    apiVersion: z.string(),
    kind: z.string(),
    status: z.object({
      expirationTimestamp: z.optional(z.string()),
      token: z.optional(z.string()),
      clientCertificateData: z.optional(z.string()),
      clientKeyData: z.optional(z.string()),
    }),
  })
);

type Status = SchemaOutput<ReturnType<typeof documentSchema>>["status"];

/** Credentials with an expiration time. */
interface ExpiringCredentials {
  readonly credentials: Credentials;
  /** Milliseconds since 1970; Infinity if they do not expire. */
  readonly expiresAtMs: number;
}

/**
 * Reads a program's output. Errors never contain any of it.
 *
 * @throws {Error} If the output is invalid
 */
export function decodeExecCredential(
  text: string,
  { command, apiVersion }: ExecEntry,
): ExpiringCredentials {
  const fail = (why: string): Error =>
    new Error(`exec: executable ${command} ${why}`);
  const what = `what exec: executable ${command} printed`;
  const document = decode(documentSchema(), parse(text, fail), what);
  if (document.apiVersion !== apiVersion) {
    throw fail(
      `is configured to use API version ${apiVersion}, and returned version ${document.apiVersion}`,
    );
  }
  const { status } = document;
  const credentials = omitAbsent<Credentials>({
    authorization: status.token
      ? bearer(checkToken(status.token, fail))
      : undefined,
    certificate: readCertificate(status, fail),
  });
  if (Object.keys(credentials).length === 0) {
    throw fail("didn't return a token or cert/key pair");
  }
  const { expirationTimestamp = "" } = status;
  return {
    credentials,
    expiresAtMs: Date.parse(expirationTimestamp) || Infinity,
  };
}

function parse(text: string, fail: (why: string) => Error): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw fail("did not print JSON");
  }
}

function checkToken(token: string, fail: (why: string) => Error): string {
  if (/^[\x20-\x7e]+$/.test(token)) return token;
  throw fail("printed a token with invalid characters");
}

function readCertificate(
  { clientCertificateData: cert, clientKeyData: key }: Status,
  fail: (why: string) => Error,
): ClientCertificate | undefined {
  if (cert && key) return { cert, key };
  if (!cert && !key) return undefined;
  throw fail("returned only certificate or key, not both");
}
