/**
 * Field selectors: which objects a list or a watch is about.
 *
 * @module
 */

import type { KubeObject, Resource } from "./objects.ts";
import { badRequest } from "./status.ts";

/** Reports whether an object is selected. */
export type Selector = (object: KubeObject) => boolean;

const TERM = /^([^=!]+)(==|=|!=)(.*)$/;

/**
 * Parses a field selector, as `spec.nodeName=node1,status.phase!=Failed`.
 *
 * @throws {StatusError} 400
 */
export function parseFieldSelector(text: string, resource: Resource): Selector {
  const terms = text.split(",").filter((term) => term !== "");
  const selectors = terms.map((term) => parseTerm(term, resource));
  return (object) => selectors.every((selects) => selects(object));
}

function parseTerm(
  text: string,
  { selectable, ...resource }: Omit<Resource, "name">,
): Selector {
  const [, field = "", operator, value] = TERM.exec(text) ?? [];
  if (operator === undefined) {
    throw badRequest(`invalid selector: '${text}'; can't understand '${text}'`);
  }
  if (!["metadata.name", "metadata.namespace", ...selectable].includes(field)) {
    throw badRequest(unsupportedText(field, resource));
  }
  const isWanted = operator !== "!=";
  return (object) => (fieldOf(object, field) === value) === isWanted;
}

/** The groups word it differently. */
function unsupportedText(
  field: string,
  { group, version, kind }: Pick<Resource, "group" | "version" | "kind">,
): string {
  return group === "resource.k8s.io"
    ? `field label not supported for ${group}/${version}, Kind=${kind}: ${field}`
    : `field label not supported: ${field}`;
}

/** An absent field equals an empty one. */
function fieldOf(object: KubeObject, path: string): string {
  let value: unknown = object;
  for (const step of path.split(".")) {
    value = (value as Record<string, unknown> | undefined)?.[step];
  }
  return value === undefined ? "" : String(value);
}
