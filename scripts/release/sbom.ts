/**
 * The documents of a release that name the software of others. CycloneDX's own library
 * (npm) would need as many lines to be given the same, and scanners of npm packages or
 * files do not see what is inside of Deno.
 *
 * @module
 */

import type { Component, Part } from "./components.ts";

/** A release: its name, version and time. */
export interface Release {
  readonly name: string;
  readonly version: string;
  /** Seconds since 1970: the time of every file. */
  readonly epoch: number;
}

/** The release's name. */
export const NAME = "cni-plugins";

/**
 * Writes a software bill of materials, in CycloneDX 1.6.
 *
 * Source: https://cyclonedx.org/docs/1.6/json/
 */
export function formatSbom(
  { name, version, epoch }: Omit<Release, "epoch"> & { epoch?: number },
  components: readonly Component[],
): string {
  const ref = `pkg:generic/${name}@${version}`;
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      ...epoch === undefined
        ? {}
        : { timestamp: new Date(epoch * 1000).toISOString() },
      component: {
        type: "application",
        "bom-ref": ref,
        name,
        version,
        licenses: [{ license: { id: "Apache-2.0" } }],
        purl: ref,
      },
    },
    components: components.map(describe),
    dependencies: [
      { ref, dependsOn: components.map(({ purl }) => purl) },
      ...components.map(({ purl }) => ({ ref: purl })),
    ],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

function describe(
  { name, version, license, purl, integrity, parts }: Component,
): Record<string, unknown> {
  return {
    type: /^pkg:(?:npm|deb)/.test(purl) ? "library" : "platform",
    "bom-ref": purl,
    name,
    version,
    ...integrity === undefined ? {} : { hashes: [toHash(integrity)] },
    licenses: [
      /[ (]/.test(license)
        ? { expression: license }
        : { license: { id: license } },
    ],
    purl,
    ...parts === undefined ? {} : { components: parts.map(describePart) },
  };
}

function describePart({ sha256, ...part }: Part): Record<string, unknown> {
  return { ...part, hashes: [{ alg: "SHA-256", content: sha256 }] };
}

/** Turns `sha512-<base64>` into what CycloneDX has: hexadecimal digits. */
function toHash(integrity: string): Record<string, string> {
  const [algorithm = "", digest = ""] = integrity.split(/-(.*)/);
  return {
    alg: algorithm.toUpperCase().replace("SHA", "SHA-"),
    content: Uint8Array.fromBase64(digest).toHex(),
  };
}

/** Writes the licenses of the software of others. */
export function formatNotices(components: readonly Component[]): string {
  const head = "The executables contain this software of others.\n";
  const parts = components.map(({ name, version, license, licenseText }) =>
    `${
      "=".repeat(78)
    }\n${name} ${version} (${license})\n\n${licenseText.trim()}\n`
  );
  return [head, ...parts].join("\n");
}
