/**
 * Schemas of what travels in configurations, from which plugins compose their
 * own. They are read with `decode` of `json.ts`, which settles the case of the
 * keys and what null means.
 *
 * @module
 */

import * as z from "zod/mini";
import { Cidr } from "../net/cidr.ts";
import { AddressError, Ip } from "../net/ip.ts";
import {
  decode,
  type JsonObject,
  omitAbsent,
  type Schema,
  type SchemaOutput,
} from "./json.ts";
import type { Dns, Route } from "./result.ts";

/**
 * A schema that reads text and answers a value.
 *
 * @internal To those who use it it is a schema of zod/mini
 */
export type TextSchema<T> = z.ZodMiniPipe<
  z.ZodMiniString,
  z.ZodMiniTransform<T, string>
>;

/**
 * Builds the schema of a text that `parse` understands.
 *
 * @param parse Answers the value, or throws an AddressError whose message
 *   becomes the problem that is reported
 */
export function parsedText<T>(parse: (text: string) => T): TextSchema<T> {
  return z.pipe(z.string(), parsedBy(parse));
}

/**
 * Builds the part of a schema that has a value parsed which is of the right
 * type.
 *
 * @param parse As that of {@linkcode parsedText}
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

/** Marks a key as one that may be absent, or null, which `decode` drops. */
export function optional<S extends z.core.$ZodType>(
  schema: S,
): z.ZodMiniOptional<S> {
  return z.optional(schema);
}

/**
 * Defers the building of a schema to the first use of it.
 *
 * zod needs one to two milliseconds for the first few schemas of a process, a
 * tenth of its life, and not every call decodes a configuration.
 */
export function once<T>(build: () => T): () => T {
  let built: T | undefined;
  return () => built ??= build();
}

/** Reads an address. */
export const ipSchema: () => TextSchema<Ip> = once(() => parsedText(Ip.parse));

/** Reads an address with a prefix length, whose host bits are kept. */
export const cidrSchema: () => TextSchema<Cidr> = once(() =>
  parsedText(Cidr.parse)
);

/** Reads an address that may be absent, null, or the empty text. */
export const optionalIpSchema: () => z.ZodMiniOptional<
  TextSchema<Ip | undefined>
> = once(() =>
  optional(parsedText((text) => text === "" ? undefined : Ip.parse(text)))
);

/** Resolver settings as they are given: what is left out is undefined. */
export type GivenDns = { readonly [K in keyof Dns]?: Dns[K] | undefined };

/** Reads resolver settings as they are given, other keys included. */
export const givenDnsSchema = once(() => {
  const list = optional(z.array(z.string()));
  return z.looseObject({
    nameservers: list,
    domain: optional(z.string()),
    search: list,
    options: list,
  });
});

/** Completes resolver settings by what sets nothing. */
export function completeDns(given: GivenDns): Dns {
  return {
    nameservers: given.nameservers ?? [],
    domain: given.domain ?? "",
    search: given.search ?? [],
    options: given.options ?? [],
  };
}

/** Reads resolver settings: the `dns` key of configurations and results. */
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
        // To Go 0 is absent, save where it has a meaning: in table and scope.
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

/** Returns the keys that a schema did not know, or nothing for none. */
export function collectUnknown(
  others: Readonly<Record<string, unknown>>,
): JsonObject | undefined {
  // They came out of a JSON document and were not looked at since.
  return Object.keys(others).length === 0 ? undefined : others as JsonObject;
}

/** An attachment that the runtime still knows; GC spares what belongs to it. */
export interface ValidAttachment {
  /** `containerID` in JSON. */
  readonly containerId: string;
  /** `ifname` in JSON. */
  readonly ifName: string;
}

const validAttachmentSchema = once(() =>
  z.pipe(
    z.looseObject({ containerID: z.string(), ifname: z.string() }),
    z.transform(({ containerID, ifname }): ValidAttachment => ({
      containerId: containerID,
      ifName: ifname,
    })),
  )
);

/**
 * Decodes which attachments GC shall spare.
 *
 * Source: CNI spec 1.1.0, "GC"; the older name is that of libcni 1.2. Go's
 * libcni writes null for an empty list.
 *
 * @param config A parsed network configuration
 * @returns Undefined if the configuration does not say: not the same as none
 * @throws {CniError} 7 If the list is malformed
 */
export function decodeValidAttachments(
  config: object,
): readonly ValidAttachment[] | undefined {
  const list = optional(z.array(validAttachmentSchema()));
  const { [VALID]: valid, [OLD_VALID]: old } = decode(
    z.looseObject({ [VALID]: list, [OLD_VALID]: list }),
    config,
    "network configuration",
  );
  return valid ?? old ?? (saysWhatIsValid(config) ? [] : undefined);
}

const VALID = "cni.dev/valid-attachments", OLD_VALID = "cni.dev/attachments";

function saysWhatIsValid(config: object): boolean {
  return Object.keys(config)
    .some((key) => [VALID, OLD_VALID].includes(key.toLowerCase()));
}

/**
 * The keys that mean the same to every plugin and are read for it; a plugin
 * adds those that it reads itself.
 *
 * Source: CNI spec 1.1.0, "Plugin configuration objects";
 * containernetworking/cni pkg/types/types.go `PluginConf`.
 */
export interface NetConf {
  /** Configuration of the IPAM plugin, read by that. */
  readonly ipam?: { readonly type?: string | undefined } | undefined;
  /** Result of the plugin before, or of the whole chain; raw. */
  readonly prevResult?: Readonly<Record<string, unknown>> | undefined;
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
 * Builds the schema of a plugin's configuration: the keys that all have, and
 * the plugin's own. Unknown keys are kept.
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
  };
}
