/**
 * The configuration schema of remote.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type Schema, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional } from "../../cni/config/types.ts";

/** Below the time limit of the kubelet and of runtimes, which is 220 s. */
const MAX_SECONDS = 219;
/** A header's name, and a value without line breaks. Source: RFC 9110, 5.1, 5.5. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

const build = (): Schema<RemoteConfig> => {
  const seconds = z.number().check(
    z.positive(),
    z.maximum(MAX_SECONDS),
  );
  const atLeastZero = z.number().check(
    z.nonnegative(),
    z.maximum(MAX_SECONDS),
  );
  return netConf({
    /** Path of the daemon's socket. */
    socket: optional(
      z.string().check(z.regex(/^\//, { error: "expected an absolute path" })),
    ),
    /** The daemon's protocol. */
    protocol: optional(z.enum(["cni", "contiv"])),
    /** Prefix of the paths of requests. */
    basePath: optional(
      z.string().check(
        z.regex(/^(\/[\w.~%-]+)*\/?$/, {
          error: "expected a path such as /v1",
        }),
      ),
    ),
    /** Time limit of a call, or of each command. */
    timeoutSeconds: optional(z.union([
      seconds,
      z.partialRecord(
        z.enum(["ADD", "DEL", "CHECK", "GC", "STATUS"]),
        seconds,
      ),
    ])),
    /** How long to wait for a daemon that does not listen yet. */
    readyTimeoutSeconds: optional(atLeastZero),
    /** Time between two attempts to connect. */
    pollMillis: optional(
      z.number().check(z.minimum(1), z.maximum(60_000)),
    ),
    /** Additional headers of requests. */
    headers: optional(z.record(
      z.string().check(z.regex(HEADER_NAME)),
      z.string().check(z.regex(HEADER_VALUE)),
    )),
    /** Whether the daemon receives the whole environment. */
    envAll: optional(z.boolean()),
    /** Whether DEL fails if the daemon is unreachable. */
    delPolicy: optional(z.enum(["besteffort", "strict"])),
    /** contiv: the form in which the daemon receives the namespace. */
    netnsMode: optional(z.enum(["proc", "path"])),
    /** contiv: whether the result lists the container's interface. */
    interfaces: optional(z.boolean()),
  }) as unknown as Schema<RemoteConfig>;
};

/** Builds the schema of the network configuration. */
export const remoteSchema: () => Schema<RemoteConfig> = once(build);

type Base = SchemaOutput<ReturnType<typeof netConf<Record<never, never>>>>;

/** The decoded configuration. */
export type RemoteConfig = Base & {
  readonly socket?: string | undefined;
  readonly protocol?: "cni" | "contiv" | undefined;
  readonly basePath?: string | undefined;
  readonly timeoutSeconds?:
    | number
    | Readonly<Partial<Record<string, number>>>
    | undefined;
  readonly readyTimeoutSeconds?: number | undefined;
  readonly pollMillis?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly envAll?: boolean | undefined;
  readonly delPolicy?: "besteffort" | "strict" | undefined;
  readonly netnsMode?: "proc" | "path" | undefined;
  readonly interfaces?: boolean | undefined;
};
