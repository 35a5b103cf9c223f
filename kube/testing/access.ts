/**
 * Authentication and authorization.
 *
 * @module
 */

import { forbidden } from "./status.ts";
import type { Target, Verb } from "./target.ts";

/** The user of multus in a cluster. */
export const SERVICE_ACCOUNT = "system:serviceaccount:kube-system:multus";

/** The credentials of basic authentication. */
export const BASIC_USER = { username: "multus", password: "s3cr&t:é" } as const;

/** The valid credentials, and denied verbs. */
export class AccessControl {
  readonly #tokens = new Map<string, string>();
  readonly #forbidden = new Set<string>();

  /** Creates a valid token. @returns The token */
  addToken(user = SERVICE_ACCOUNT): string {
    const random = crypto.getRandomValues(new Uint8Array(24));
    const token = `kube-api-test.${random.toBase64({ alphabet: "base64url" })}`;
    this.#tokens.set(token, user);
    return token;
  }

  /** Revokes a token. */
  revokeToken(token: string): void {
    this.#tokens.delete(token);
  }

  /**
   * Finds the user of a request: a single valid proof is enough.
   *
   * @param certified The user of the client certificate, if any; "" if it is invalid
   */
  findUser(
    authorization: string | undefined,
    certified: string | undefined,
  ): string | undefined {
    if (certified) return certified;
    const [scheme = "", proof = ""] = (authorization ?? "").split(" ");
    if (scheme.toLowerCase() === "bearer") return this.#tokens.get(proof);
    const isBasic = scheme.toLowerCase() === "basic" && proof === basicProof();
    return isBasic ? BASIC_USER.username : undefined;
  }

  /** Forbids a verb on a resource; `*` is any. */
  forbid(verb: string, resource: string): void {
    this.#forbidden.add(`${verb} ${resource}`);
  }

  /** Undoes `forbid()`. */
  allow(verb: string, resource: string): void {
    this.#forbidden.delete(`${verb} ${resource}`);
  }

  /** @throws {StatusError} 403 */
  check(user: string, verb: Verb, target: Target): void {
    const { resource: { name }, subresource } = target;
    const full = subresource === "" ? name : `${name}/${subresource}`;
    const isForbidden = [verb, "*"].some((verb) =>
      [full, "*"].some((resource) => this.#forbidden.has(`${verb} ${resource}`))
    );
    if (isForbidden) throw forbidden({ ...target, user, verb });
  }
}

function basicProof(): string {
  const { username, password } = BASIC_USER;
  return new TextEncoder().encode(`${username}:${password}`).toBase64();
}
