/**
 * The JSON form of the networks annotation.
 *
 * Source: Kubernetes Network Custom Resource Definition De-facto Standard 1.3,
 * 4.1.2; multus-cni pkg/types/types.go `NetworkSelectionElement`.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, describeError, ErrorCode } from "../../../cni/error.ts";
import {
  decode,
  type JsonObject,
  omitAbsent,
  parseJson,
} from "../../../cni/json/json.ts";
import { ipSchema, once, optional } from "../../../cni/config/types.ts";
import { Cidr } from "../../../net/cidr.ts";
import { AddressError, Ip } from "../../../net/ip.ts";
import { bandwidthSchema, portMappingsSchema } from "../model/config.ts";
import type { AttachmentRequest, NetworkSelection } from "../model/delegate.ts";

const networksSchema = once(() => {
  const text = optional(z.string());
  return z.array(z.object({
    name: text,
    namespace: text,
    interface: text,
    // The earlier name of `interface`.
    interfaceRequest: text,
    ips: optional(z.array(z.string())),
    mac: text,
    "infiniband-guid": text,
    bandwidth: optional(bandwidthSchema()),
    portMappings: optional(portMappingsSchema()),
    "cni-args": optional(z.looseObject({})),
    // The reference reads "" as an IPv6 gateway without an address; that can
    // only be a mistake.
    "default-route": optional(z.array(ipSchema())),
    deviceID: text,
  }));
});

type Element = z.output<ReturnType<typeof networksSchema>>[number];

/**
 * Parses a list of networks; unknown keys are ignored.
 *
 * @param namespace The default namespace
 * @returns The networks as written; a missing name is ""
 * @throws {CniError} 7 If it is malformed
 */
export function parseJsonNetworks(
  text: string,
  namespace: string,
): NetworkSelection[] {
  return decodeNetworks(text).map((element) => {
    checkAddresses(element);
    return {
      name: element.name ?? "",
      namespace: element.namespace || namespace,
      request: toRequest(element),
    };
  });
}

function decodeNetworks(text: string): Element[] {
  try {
    return decode(networksSchema(), parseJson(text), "networks");
  } catch (error) {
    throw malformed(
      "parsePodNetworkAnnotation: failed to parse pod Network Attachment " +
        `Selection Annotation JSON format: ${describeError(error)}`,
    );
  }
}

function malformed(problem: string): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, problem);
}

function toRequest(element: Element): AttachmentRequest {
  return omitAbsent<AttachmentRequest>({
    ifName: element.interface || element.interfaceRequest || undefined,
    mac: element.mac || undefined,
    infinibandGuid: element["infiniband-guid"] || undefined,
    ips: element.ips,
    // The document is JSON, so these are JSON too.
    bandwidth: element.bandwidth as JsonObject | undefined,
    portMappings: element.portMappings as JsonObject[] | undefined,
    cniArgs: element["cni-args"] as JsonObject | undefined,
    defaultRoute: element["default-route"],
    deviceId: element.deviceID || undefined,
  });
}

/** Checks texts that plugins receive unchanged. */
function checkAddresses(element: Element): void {
  const { mac = "", "infiniband-guid": guid = "", ips = [] } = element;
  checkHardwareAddress(mac, "failed to mac");
  checkHardwareAddress(guid, "failed to validate infiniband GUID");
  ips.forEach(checkIp);
}

function checkHardwareAddress(text: string, problem: string): void {
  if (text === "" || isHardwareAddress(text)) return;
  throw malformed(
    `parsePodNetworkAnnotation: ${problem}: address ${text}: invalid MAC address`,
  );
}

/**
 * Checks an address with or without a prefix length.
 *
 * @throws {CniError} 7 If it is malformed
 */
export function checkIp(text: string): void {
  const quoted = JSON.stringify(text);
  try {
    if (text.includes("/")) Cidr.parse(text);
    else Ip.parse(text);
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw malformed(
      text.includes("/")
        ? `failed to parse CIDR ${quoted}: ${error.message}`
        : `failed to parse IP address ${quoted}`,
    );
  }
}

const OCTETS = /^[\da-f]{2}([:-])[\da-f]{2}(?:\1[\da-f]{2})*$/i;
const DOTTED = /^[\da-f]{4}(?:\.[\da-f]{4})+$/i;

/** Octets of Ethernet, EUI-64 (an InfiniBand GUID) and IP over InfiniBand. */
const LENGTHS = [6, 8, 20];

/**
 * Reports whether a text is a hardware address: octets separated by colons or
 * dashes, or pairs of octets separated by dots.
 *
 * Source: Go net `ParseMAC`. Go 1.26 added a form without separators, which no
 * plugin reads yet.
 */
export function isHardwareAddress(text: string): boolean {
  const octets = text.replaceAll(/[:.-]/g, "").length / 2;
  return (OCTETS.test(text) || DOTTED.test(text)) && LENGTHS.includes(octets);
}
