/**
 * Configurations inside Kubernetes objects: NetworkAttachmentDefinitions,
 * ConfigMaps with CNI files, and the networks annotation of pods.
 *
 * @module
 */

import { JSON_SCHEMA, loadAll, YAMLException } from "js-yaml";
import {
  type JsonObject,
  type JsonValue,
  objectOf,
} from "../../base/json/json.ts";
import { ConfText } from "./conf_text.ts";
import { errorAt, type Problem, unknownKeyAt } from "../../metadata/problem.ts";
import { countEdits } from "../../base/command_line/suggest.ts";
import { findNetworksProblem } from "../../plugins/multus/inspect.ts";

/** A configuration in an object. */
export interface Definition {
  /** The object and its key, such as `default/net1`. */
  readonly label: string;
  /** The object's name, which the network has by default. */
  readonly name: string | undefined;
  readonly form: "either" | "list";
  /** Whether multus adds the device that the cluster allocated. */
  readonly hasDevice?: boolean;
  readonly text: ConfText;
  /** Problems of a text that is not a configuration; empty if no configuration is required. */
  readonly problems?: readonly Problem[];
}

/** The content of a YAML file. */
export interface FoundDefinition {
  readonly definitions: readonly Definition[];
  /** Whether it has Kubernetes objects, with or without networks. */
  readonly hasObjects: boolean;
}

/** The key of the annotation. Source: Network Plumbing WG specification v1.3. */
const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/** The annotation of definitions whose containers get a device. Source: as above. */
const RESOURCE = "k8s.v1.cni.cncf.io/resourceName";

/** The kind of objects with a network, and its API. Source: as above. */
const DEFINITION = "NetworkAttachmentDefinition",
  API_VERSION = "k8s.cni.cncf.io/v1";

/** Marks of Helm templates, which neither JSON nor YAML of objects has. */
const TEMPLATE = /\{\{[^{}\n]*\}\}/;

/** A name that the API server takes. Source: RFC 1123. */
const OBJECT_NAME =
  /^[a-z\d]([-a-z\d]*[a-z\d])?(\.[a-z\d]([-a-z\d]*[a-z\d])?)*$/;

/** Keys of ConfigMaps that hold CNI files. */
const CNI_FILE = /\.conf(list)?$|^cni-conf\.json$/;

/**
 * Finds the configurations in YAML or JSON objects.
 *
 * @returns With a definition that has only a problem if it is not YAML
 */
export async function listDefinitions(yaml: string): Promise<FoundDefinition> {
  const template = TEMPLATE.exec(yaml);
  if (template !== null) {
    const problem =
      "a template: render it first, for instance with helm template";
    const found = { ...errorAt([], problem), offset: template.index };
    const text = new ConfText(yaml);
    const nothing = { label: "", name: undefined, form: "either" } as const;
    return {
      definitions: [{ ...nothing, text, problems: [found] }],
      hasObjects: true,
    };
  }
  const scalars = new Map<string, [start: number, end: number][]>();
  const mappings = new Map<unknown, number>();
  let documents: JsonValue[];
  try {
    documents = loadAll(yaml, null, {
      schema: JSON_SCHEMA,
      json: true,
      listener: listenTo(scalars, mappings),
    }) as JsonValue[];
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const failure = describeFailure(yaml, error as unknown as Failure);
    return { definitions: [failure], hasObjects: true };
  }
  const place = (value: unknown): ConfText => {
    if (typeof value !== "string") {
      const start = skipSpace(yaml, mappings.get(value) ?? 0);
      return new ConfText("", { text: yaml, toFile: () => start });
    }
    const span = scalars.get(value)?.shift();
    return span === undefined
      ? new ConfText(value)
      : new ConfText(value, { text: yaml, toFile: align(yaml, value, span) });
  };
  const objects = documents.flatMap(listObjects);
  const definitions: Definition[] = [];
  for (const object of objects) {
    definitions.push(...await readObject(object, place));
  }
  const hasObjects = objects.some(({ kind }) => typeof kind === "string");
  return { definitions, hasObjects };
}

function skipSpace(text: string, start: number): number {
  const skipped = text.slice(start).search(/\S/);
  return skipped < 0 ? start : start + skipped;
}

/** A configuration of its own, which is not in an object of Kubernetes. */
function isConf({ kind, plugins, type, cniVersion }: JsonObject): boolean {
  return kind === undefined &&
    (Array.isArray(plugins) || typeof type === "string" && Boolean(cniVersion));
}

/** An error of js-yaml; its types might be missing. */
interface Failure {
  readonly reason: string;
  readonly mark?: { readonly position: number };
}

function describeFailure(yaml: string, { reason, mark }: Failure): Definition {
  const problem = errorAt([], `neither JSON nor YAML: ${reason}`);
  return {
    label: "",
    name: undefined,
    form: "either",
    text: new ConfText(yaml),
    problems: [{ ...problem, offset: mark?.position ?? 0 }],
  };
}

/** The state of js-yaml's parser. */
interface ParserState {
  readonly position: number;
  readonly kind: string;
  readonly result: unknown;
}

/** Collects where each text begins and ends. */
function listenTo(
  scalars: Map<string, [start: number, end: number][]>,
  mappings: Map<unknown, number>,
): (event: string, state: unknown) => void {
  const starts: number[] = [];
  return (event, state) => {
    const { position, kind, result } = state as ParserState;
    if (event === "open") return void starts.push(position);
    const start = starts.pop() ?? 0;
    if (kind === "mapping" && !mappings.has(result)) {
      mappings.set(result, start);
    }
    if (kind !== "scalar" || typeof result !== "string") return;
    const spans = scalars.get(result) ?? [];
    // The parser opens a node more than once.
    if (spans.at(-1)?.[1] === position) return;
    scalars.set(result, [...spans, [start, position]]);
  };
}

/**
 * Maps offsets in a text to those in its YAML. Indentation, line breaks and
 * escapes differ, all other characters come in the same order.
 */
function align(
  yaml: string,
  value: string,
  [start, end]: [number, number],
): (offset: number) => number {
  const raw = yaml.slice(start, end);
  const quote = /^\s*(['"]|[|>][^\n]*\n)/.exec(raw)?.[0].length ?? 0;
  const offsets: number[] = [];
  let at = start + quote;
  for (const character of value.split("")) {
    if (/\S/.test(character)) {
      const next = yaml.indexOf(character, at);
      if (next >= 0 && next < end) at = next;
    }
    offsets.push(at);
    if (/\S/.test(character)) at++;
  }
  return (offset) => offsets[offset] ?? at;
}

function listObjects(value: JsonValue): JsonObject[] {
  const object = objectOf(value);
  const { kind, items } = object;
  return typeof kind === "string" && kind.endsWith("List") &&
      Array.isArray(items)
    ? items.flatMap(listObjects)
    : [object];
}

/** Explains why the API server would not take an object for a definition. */
function findKindProblem(
  { kind, apiVersion, metadata }: JsonObject,
): { readonly message: string; readonly at: unknown } | undefined {
  if (kind === DEFINITION) {
    const isKnown = apiVersion === undefined || apiVersion === API_VERSION;
    if (!isKnown) {
      const message = `apiVersion: expected ${API_VERSION}, got ${apiVersion}`;
      return { message, at: apiVersion };
    }
    const { name } = objectOf(metadata);
    return typeof name !== "string" || OBJECT_NAME.test(name) ? undefined : {
      message: `metadata.name: the API server refuses "${name}": use lower ` +
        "case letters, digits, dashes and dots",
      at: name,
    };
  }
  const isNear = typeof kind === "string" && /attach\w*def/i.test(kind);
  return isNear
    ? { message: `kind: ${kind} is not ${DEFINITION}`, at: kind }
    : undefined;
}

async function readObject(
  object: JsonObject,
  place: (value: unknown) => ConfText,
): Promise<Definition[]> {
  const { kind, metadata, spec, data } = object;
  const { name, namespace } = objectOf(metadata);
  const label = [namespace, name].filter((part) => typeof part === "string")
    .join("/");
  const problem = findKindProblem(object);
  if (problem !== undefined) {
    const problems = [{ ...errorAt([], problem.message), offset: 0 }];
    const text = place(problem.at);
    return [{ label, name: undefined, form: "either", text, problems }];
  }
  const nothing = { label, name: undefined, form: "either" } as const;
  if (isConf(object)) {
    const problem =
      "runtimes ignore YAML: write JSON, in a file *.conflist, *.conf or *.json";
    const problems = [{ ...errorAt([], problem), offset: 0 }];
    return [{ ...nothing, text: place(object), problems }];
  }
  if (kind === DEFINITION) {
    const { config } = objectOf(spec);
    if (config === undefined || config === null || config === "") {
      // The configuration is in a file on each node.
      return [{ ...nothing, text: new ConfText(""), problems: [] }];
    }
    const own = typeof name === "string" ? name : undefined;
    if (typeof config !== "string") {
      const problem =
        "spec.config: expected JSON in a string, such as config: |";
      const problems = [{ ...errorAt([], problem), offset: 0 }];
      const text = place(config);
      return [{ label, name: own, form: "either", text, problems }];
    }
    const text = place(config);
    const { annotations } = objectOf(metadata);
    const hasDevice = Boolean(objectOf(annotations)[RESOURCE]);
    return [
      { label, name: own, form: "either", text, hasDevice },
      ...findMisspelt(RESOURCE, annotations, label, place),
    ];
  }
  if (kind === "ConfigMap") {
    return Object.entries(objectOf(data)).flatMap(([key, value]) =>
      CNI_FILE.test(key) && typeof value === "string"
        ? [{
          label: `${label}/${key}`,
          name: undefined,
          form: key.endsWith(".conflist") ? "list" as const : "either" as const,
          text: place(value),
        }]
        : []
    );
  }
  // The network operator of OpenShift makes definitions of them.
  const { template, jobTemplate, additionalNetworks } = objectOf(spec);
  if (Array.isArray(additionalNetworks)) {
    return additionalNetworks.map(objectOf).flatMap(
      ({ name: own, namespace = "default", rawCNIConfig }) =>
        typeof rawCNIConfig !== "string" ? [] : [{
          label: `${namespace}/${own}`,
          name: typeof own === "string" ? own : undefined,
          form: "either" as const,
          text: place(rawCNIConfig),
        }],
    );
  }
  const pods = [
    object,
    template,
    objectOf(objectOf(jobTemplate)["spec"])["template"],
  ];
  const found = await Promise.all(
    pods.map((pod) => readAnnotation(objectOf(pod), label, place)),
  );
  return found.flat();
}

/** How many letters of an annotation's name can differ. */
const MISSPELT = 2;

/** Finds annotations that are probably misspellings of a missing annotation. */
function findMisspelt(
  wanted: string,
  annotations: JsonValue | undefined,
  label: string,
  place: (value: string) => ConfText,
): Definition[] {
  const given = objectOf(annotations);
  if (given[wanted] !== undefined) return [];
  const nameOf = (key: string): string =>
    key.slice(key.indexOf("/") + 1).toLowerCase();
  return Object.keys(given)
    .filter((key) =>
      /^[^/]*cncf\.io\//i.test(key) &&
      countEdits(nameOf(key), nameOf(wanted)) <= MISSPELT
    )
    .map((key) => {
      const message = `nothing reads "${key}" here; did you mean "${wanted}"?`;
      const problems = [{ ...unknownKeyAt([], message), offset: 0 }];
      const text = place(key);
      return { label, name: undefined, form: "either", text, problems };
    });
}

async function readAnnotation(
  pod: JsonObject,
  label: string,
  place: (value: string) => ConfText,
): Promise<Definition[]> {
  const { annotations, namespace } = objectOf(pod["metadata"]);
  const networks = objectOf(annotations)[NETWORKS];
  if (typeof networks !== "string") {
    return findMisspelt(NETWORKS, annotations, label, place);
  }
  const problem = await findNetworksProblem(
    networks,
    String(namespace ?? "default"),
  );
  const problems = problem === undefined
    ? []
    : [{ ...errorAt([], `${NETWORKS}: ${problem}`), offset: 0 }];
  const text = place(networks);
  return [{ label, name: undefined, form: "either", text, problems }];
}
