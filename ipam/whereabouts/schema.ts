/**
 * The schema of whereabouts' configuration. The flat file has the keys of
 * `ipam`.
 *
 * @module
 */

import * as z from "zod/mini";
import { parseStayTime } from "../../base/duration.ts";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import {
  cidrSchema,
  dnsSchema,
  netConf,
  optional,
  optionalIpSchema,
  parsedText,
  routeSchema,
} from "../../cni/config/types.ts";
import { apiTimeoutSchema } from "../../kube/api_timeout.ts";
import { AddressError, type Ip, unlessNoAddress } from "../../net/ip.ts";
import { parseExcluded, parseLenientIp, parseRange } from "./range.ts";

/** Builds the schema of `ipam` and of the flat file. */
export const ipamSchema = once(() => {
  const text = optional(z.string());
  const milliseconds = optional(z.int());
  const exclude = optional(z.array(parsedText(parseExcluded)));
  const bound = optional(parsedText(parseBound));
  return z.looseObject({
    type: text,
    range: optional(parsedText(parseOptionalRange)),
    range_start: bound,
    range_end: bound,
    exclude,
    ipRanges: optional(z.array(z.looseObject({
      range: parsedText(parseRange),
      range_start: optionalIpSchema(),
      range_end: optionalIpSchema(),
      exclude,
    }))),
    gateway: optional(parsedText(parseGateway)),
    exclude_gateway: optional(z.boolean()),
    addresses: optional(z.array(z.looseObject({
      address: cidrSchema(),
      gateway: optionalIpSchema(),
    }))),
    routes: optional(z.array(routeSchema())),
    dns: optional(dnsSchema()),
    network_name: optional(parsedText(parseNetworkName)),
    enable_overlapping_ranges: optional(z.boolean()),
    node_slice_size: text,
    apiTimeoutSeconds: optional(apiTimeoutSchema()),
    stay: optional(z.enum(["statefulset", "name"])),
    stayTime: optional(parsedText(parseStayTime)),
    stayWhenScaled: optional(z.enum(["keep", "delete"])),
    kubernetes: optional(z.looseObject({
      kubeconfig: text,
      k8s_api_root: text,
    })),
    configuration_path: text,
    dataDir: text,
    // Accepted and not used: nothing elects a leader, the datastore is always
    // Kubernetes, and plugins log to stderr.
    leader_lease_duration: milliseconds,
    leader_renew_deadline: milliseconds,
    leader_retry_period: milliseconds,
    log_file: text,
    log_level: text,
    sleep_for_race: milliseconds,
    reconciler_cron_expression: text,
    datastore: text,
    etcd_host: text,
    etcd_username: text,
    etcd_password: text,
    etcd_key_file: text,
    etcd_cert_file: text,
    etcd_ca_cert_file: text,
  });
});

/** Builds the schema of the whole network configuration. */
export const whereaboutsSchema = once(() => {
  const text = optional(z.string());
  const ips = optional(z.array(z.string()));
  return netConf({
    ipam: optional(ipamSchema()),
    args: optional(z.looseObject({
      cni: optional(z.looseObject({ ips, "ipam-claim-reference": text })),
    })),
    runtimeConfig: optional(z.looseObject({ ips })),
    "cni.dev/pod": optional(z.looseObject({
      uid: z.string(),
      controller: optional(z.looseObject({
        apiVersion: z.string(),
        kind: z.string(),
        name: z.string(),
        uid: z.string(),
      })),
      labels: z.record(z.string(), z.string()),
    })),
  });
});

/** The decoded configuration. */
export type WhereaboutsConfig = SchemaOutput<
  ReturnType<typeof whereaboutsSchema>
>;
/** The decoded `ipam` object, or flat file. */
export type IpamConfig = SchemaOutput<ReturnType<typeof ipamSchema>>;

function parseOptionalRange(
  text: string,
): ReturnType<typeof parseRange> | undefined {
  return text === "" ? undefined : parseRange(text);
}

function parseBound(text: string): Ip | undefined {
  return text === "" ? undefined : parseLenientIp(text);
}

function parseGateway(text: string): Ip | undefined {
  if (text === "") return undefined;
  const gateway = unlessNoAddress(() => parseLenientIp(text));
  if (gateway !== undefined) return gateway;
  throw new AddressError(`couldn't parse gateway IP: ${text}`);
}

/** The name becomes part of objects' names. */
function parseNetworkName(text: string): string {
  if (/^([a-z\d]([-.a-z\d]*[a-z\d])?)?$/.test(text)) return text;
  throw new AddressError(
    `"${text}" cannot be part of an object's name: only lower-case letters, ` +
      "digits, '-' and '.' are allowed",
  );
}
