/**
 * Schemas for configurations, from which plugins compose their own. Read them with
 * `decode` of `json.ts`, which handles the case of keys and null.
 *
 * @module
 */

import * as z from "zod/mini";
import { Cidr } from "../../net/cidr.ts";
import { AddressError, Ip } from "../../net/ip.ts";
import {
  decode,
  type JsonObject,
  omitAbsent,
  once,
  type Schema,
  type SchemaOutput,
} from "../../base/json/json.ts";
import type { Dns, Route } from "../result/result.ts";

/**
 * A schema that reads a string and returns a value.
 *
 * @internal Users see a zod/mini schema
 */
export type TextSchema<T> = z.ZodMiniPipe<
  z.ZodMiniString,
  z.ZodMiniTransform<T, string>
>;

/**
 * Builds the schema of a string for `parse`.
 *
 * @param parse Returns the value, or throws an AddressError whose message is
 *   reported
 */
export function parsedText<T>(parse: (text: string) => T): TextSchema<T> {
  return z.pipe(z.string(), parsedBy(parse));
}

/**
 * Builds the part of a schema that parses a value of the right type.
 *
 * @param parse As in {@linkcode parsedText}
 */
export function parsedBy<Input, T>(
  parse: (input: Input) => T,
): z.ZodMiniTransform<T, Input> {
  return z.transform((input: Input, context) => {
    try {
      return parse(input);
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      const { message } = error;
      context.issues.push({ code: "custom", message, input });
      return z.NEVER;
    }
  });
}

/** Makes a key optional. `decode` drops null. */
export function optional<S extends z.core.$ZodType>(
  schema: S,
): z.ZodMiniOptional<S> {
  return z.optional(schema);
}

/**
 * Extends a schema to refuse keys that exclude each other.
 *
 * @param findProblem Returns what is wrong; undefined if nothing is
 */
export function refusing<C>(
  config: Schema<C>,
  key: string,
  findProblem: (keys: C) => string | undefined,
): Schema<C> {
  const check = z.refine<C>((keys) => findProblem(keys) === undefined, {
    path: [key],
    error: ({ input }) => findProblem(input as C),
    // Checked even if other keys are invalid: DEL drops all invalid keys
    // together.
    when: ({ value }) => typeof value === "object" && value !== null,
  });
  return (config as unknown as z.ZodMiniType<C>).check(check);
}

/** Reads an address. */
export const ipSchema: () => TextSchema<Ip> = once(() => parsedText(Ip.parse));

/** Reads an address with a prefix length; keeps its host bits. */
export const cidrSchema: () => TextSchema<Cidr> = once(() =>
  parsedText(Cidr.parse)
);

/** Reads an address that may be absent, null, or "". */
export const optionalIpSchema: () => z.ZodMiniOptional<
  TextSchema<Ip | undefined>
> = once(() =>
  optional(parsedText((text) => text === "" ? undefined : Ip.parse(text)))
);

/** A DNS configuration as given; absent keys are undefined. */
export type GivenDns = { readonly [K in keyof Dns]?: Dns[K] | undefined };

/** Reads a DNS configuration as given, including unknown keys. */
export const givenDnsSchema = once(() => {
  const list = optional(z.array(z.string()));
  return z.looseObject({
    nameservers: list,
    domain: optional(z.string()),
    search: list,
    options: list,
  });
});

/** Reads an integer with 32 bits, as the kernel has most: 0 to 4294967295. */
export const uint32Schema: () => z.ZodMiniType<number> = once(() =>
  z.int().check(z.minimum(0), z.maximum(2 ** 32 - 1))
);

/**
 * Reads an MTU in bytes, at most 4294967295; what 0 or less means is the
 * plugin's.
 */
export const mtuSchema: () => z.ZodMiniType<number> = once(() =>
  z.int().check(z.maximum(2 ** 32 - 1))
);

/** Fills absent keys of a DNS configuration with empty values. */
export function completeDns(given: GivenDns): Dns {
  return {
    nameservers: given.nameservers ?? [],
    domain: given.domain ?? "",
    search: given.search ?? [],
    options: given.options ?? [],
  };
}

/** Reads a DNS configuration: the `dns` key of configurations and results. */
export const dnsSchema: () => z.ZodMiniType<Dns> = once(() =>
  z.pipe(givenDnsSchema(), z.transform((given): Dns => completeDns(given)))
);

/**
 * Reads a route, as in results and in the configurations of IPAM plugins.
 *
 * Source: containernetworking/cni pkg/types/types.go `Route`.
 */
export const routeSchema: () => z.ZodMiniType<Route> = once(() => {
  const integer = optional(z.int());
  return z.pipe(
    z.looseObject({
      dst: cidrSchema(),
      gw: optionalIpSchema(),
      mtu: integer,
      advmss: integer,
      priority: integer,
      table: integer,
      scope: integer,
    }),
    z.transform((route): Route => {
      const { dst, gw, mtu, advmss, priority, table, scope, ...others } = route;
      return omitAbsent<Route>({
        dst,
        gw,
        // In Go 0 means absent, except for table and scope.
        mtu: mtu || undefined,
        advmss: advmss || undefined,
        priority: priority || undefined,
        table,
        scope,
        unknownKeys: collectUnknown(others),
      });
    }),
  );
});

/** Returns the unknown keys, or nothing. */
export function collectUnknown(
  others: Readonly<Record<string, unknown>>,
): JsonObject | undefined {
  // They come from a JSON document and are unchanged since.
  return Object.keys(others).length === 0 ? undefined : others as JsonObject;
}

/** An attachment that the runtime still has; GC keeps it. */
export interface AttachmentId {
  /** `containerID` in JSON. */
  readonly containerId: string;
  /** `ifname` in JSON. */
  readonly ifName: string;
}

/** One interface of one container on one network. */
export interface Attachment extends AttachmentId {
  /** The network's name. */
  readonly network: string;
}

/** Reports whether two attachments have the same container and interface. */
export function isSameInterface(
  left: AttachmentId,
  right: AttachmentId,
): boolean {
  return left.containerId === right.containerId && left.ifName === right.ifName;
}

/** Reports whether two attachments are the same. */
export function isSameAttachment(left: Attachment, right: Attachment): boolean {
  return left.network === right.network && isSameInterface(left, right);
}

/**
 * Returns a test whether an attachment is in a list, in the same time however long
 * the list is.
 */
export function listedTest(
  list: readonly AttachmentId[],
): (attachment: AttachmentId) => boolean {
  // No container or interface name contains a slash.
  const keyOf = ({ containerId, ifName }: AttachmentId): string =>
    `${containerId}/${ifName}`;
  const keys = new Set(list.map(keyOf));
  return (attachment) => keys.has(keyOf(attachment));
}

const validAttachmentSchema = once(() =>
  z.pipe(
    z.looseObject({ containerID: z.string(), ifname: z.string() }),
    z.transform(({ containerID, ifname }): AttachmentId => ({
      containerId: containerID,
      ifName: ifname,
    })),
  )
);

/**
 * Decodes the attachments that GC keeps.
 *
 * Source: CNI spec 1.1.0, "GC"; the older name is from libcni 1.2. Go's
 * libcni writes null for an empty list.
 *
 * @param config A parsed network configuration
 * @returns Undefined if the key is absent, which differs from an empty list
 * @throws {CniError} 7 If the list is malformed
 */
export function decodeValidAttachments(
  config: object,
): readonly AttachmentId[] | undefined {
  const list = optional(z.array(validAttachmentSchema()));
  const { [VALID]: valid, [OLD_VALID]: old } = decode(
    z.looseObject({ [VALID]: list, [OLD_VALID]: list }),
    config,
    "network configuration",
  );
  return valid ?? old ?? (listsValid(config) ? [] : undefined);
}

const VALID = "cni.dev/valid-attachments", OLD_VALID = "cni.dev/attachments";

/** The keys of the list, in lower case. */
export const VALID_KEYS: readonly string[] = [VALID, OLD_VALID];

/**
 * The default cache directory of a plugin that is itself a runtime. The Go multus uses
 * the same directory, so each of the two finds the attachments of the other.
 */
export const MULTUS_CACHE_DIR = "/var/lib/cni/multus";

/**
 * The key for address conflicts (`conflicts.ts`). It is defined here because few calls
 * load that module.
 */
export const CONFLICTS = "cni.dev/conflicts";

/**
 * How long an address is set aside after a conflict, in ms. The other machine might
 * leave the network.
 *
 * Source: dnsmasq src/config.h `DECLINE_BACKOFF`.
 */
export const SET_ASIDE_MS = 600_000;

function listsValid(config: object): boolean {
  return Object.keys(config)
    .some((key) => VALID_KEYS.includes(key.toLowerCase()));
}

/**
 * The keys that mean the same to every plugin. A plugin adds its own.
 *
 * Source: CNI spec 1.1.0, "Plugin configuration objects";
 * containernetworking/cni pkg/types/types.go `PluginConf`.
 */
export interface NetConf {
  /** Configuration of the IPAM plugin, which reads it. */
  readonly ipam?: { readonly type?: string | undefined } | undefined;
  /** Result of the previous plugin or of the whole chain, undecoded. */
  readonly prevResult?: Readonly<Record<string, unknown>> | undefined;
  /**
   * Absolute path of the socket of the node daemon that runs the plugin's calls, by
   * default `/run/cni/daemon.sock`; "" for no daemon. `daemon/caller/hand_over.ts` reads
   * the key, and the plugin does not.
   */
  readonly daemonSocket?: string | undefined;
  /** Whether pods can name IPAMClaims. Read by IPAM plugins that support them. */
  readonly allowPersistentIPs?: boolean | undefined;
}

/** A configuration with a plugin's own keys, by their schemas. */
export type NetConfWith<Shape> =
  & Omit<NetConf, keyof Shape>
  & {
    readonly [
      K in keyof Shape as undefined extends SchemaOutput<Shape[K]> ? never : K
    ]: SchemaOutput<Shape[K]>;
  }
  & {
    readonly [
      K in keyof Shape as undefined extends SchemaOutput<Shape[K]> ? K : never
    ]?: SchemaOutput<Shape[K]>;
  };

/**
 * Builds the schema of a plugin's configuration: the common keys and the plugin's
 * own. Unknown keys are kept.
 *
 * @param shape Schemas of zod/mini by key, as `{ mtu: z.optional(z.int()) }`
 */
export function netConf<
  Shape extends Readonly<Record<string, Schema<unknown>>>,
>(
  shape: Shape,
): Schema<NetConfWith<Shape>> {
  const own = shape as unknown as Record<string, z.core.$ZodType>;
  return z.looseObject({ ...baseShape(), ...own }) as unknown as Schema<
    NetConfWith<Shape>
  >;
}

function baseShape(): Record<keyof NetConf, z.core.$ZodType> {
  return {
    ipam: optional(z.looseObject({ type: optional(z.string()) })),
    prevResult: optional(z.looseObject({})),
    daemonSocket: optional(socketSchema()),
    allowPersistentIPs: optional(z.boolean()),
  };
}

const socketSchema = once(() =>
  z.pipe(
    z.string(),
    z.transform((path, { issues }) => {
      if (path === "" || path.startsWith("/")) return path;
      const message = `expected an absolute path, got ${JSON.stringify(path)}`;
      issues.push({ code: "custom", message, input: path });
      return z.NEVER;
    }),
  )
);
