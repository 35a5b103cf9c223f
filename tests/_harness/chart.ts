/**
 * The chart and the kustomizations of deploy/, as Helm and kubectl render them.
 *
 * @module
 */

import { loadAll } from "js-yaml";
import { allOf, hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import type { Needs } from "../../testing/capabilities.ts";
import { findTool } from "./peers.ts";

const DEPLOY = new URL("../../deploy/", import.meta.url).pathname;

/** The chart's directory. */
export const CHART = `${DEPLOY}chart`;

const HELM = findTool("helm");

/** Skips tests that need Helm where it could not be built. */
export const needsHelm: Needs = ignoreUnless(
  HELM !== undefined,
  "needs go and its module proxy, for helm",
);

/** Skips tests that compare Helm with kustomize. */
export const needsHelmAndKubectl: Needs = allOf(
  needsHelm,
  ignoreUnless(hasCommand("kubectl"), "needs kubectl"),
);

// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
export type Manifest = any;

/** How a program ended. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs Helm, with directories of its own. */
export function helm(args: readonly string[]): Ended {
  const home = Deno.makeTempDirSync({ prefix: "cni-test-" });
  try {
    return run(HELM ?? "helm", args, { HOME: home });
  } finally {
    Deno.removeSync(home, { recursive: true });
  }
}

/** Runs `helm template` on the chart, and returns what it prints. */
export function template(
  values: object,
  chart = CHART,
  ...flags: string[]
): Ended {
  const file = Deno.makeTempFileSync({ suffix: ".json" });
  try {
    Deno.writeTextFileSync(file, JSON.stringify(values));
    const args = ["template", "cni", chart, "--namespace=kube-system"];
    return helm([...args, `--values=${file}`, ...flags]);
  } finally {
    Deno.removeSync(file);
  }
}

/** Renders the chart: its objects, and those of its hooks. */
export function render(
  values: object,
  ...flags: string[]
): { readonly objects: Manifest[]; readonly hooks: Manifest[] } {
  const { code, stdout, stderr } = template(values, CHART, ...flags);
  if (code !== 0) throw new Error(stderr);
  const all = parse(stdout);
  const isHook = ({ metadata }: Manifest): boolean =>
    metadata.annotations?.["helm.sh/hook"] !== undefined;
  return {
    objects: all.filter((one) => !isHook(one)),
    hooks: all.filter(isHook),
  };
}

/** Has kustomize build a kustomization that is beside those of deploy/. */
export function kustomize(kustomization: object): Manifest[] {
  const copy = Deno.makeTempDirSync({ prefix: "cni-test-" });
  try {
    run("cp", ["-r", `${DEPLOY}.`, copy]);
    Deno.mkdirSync(`${copy}/test`);
    // YAML is a superset of JSON.
    const text = JSON.stringify(kustomization);
    Deno.writeTextFileSync(`${copy}/test/kustomization.yaml`, text);
    const { code, stdout, stderr } = run("kubectl", [
      "kustomize",
      "--load-restrictor=LoadRestrictionsNone",
      `${copy}/test`,
    ]);
    if (code !== 0) throw new Error(stderr);
    return parse(stdout);
  } finally {
    Deno.removeSync(copy, { recursive: true });
  }
}

/** Parses objects, and sorts them by kind and name. */
function parse(text: string): Manifest[] {
  const nameOf = ({ kind, metadata: { name } }: Manifest): string =>
    `${kind} ${name}`;
  return (loadAll(text) as Manifest[]).filter((object) => object !== null)
    .toSorted((a, b) => nameOf(a) < nameOf(b) ? -1 : 1);
}

function run(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Ended {
  const { code, stdout, stderr } = new Deno.Command(program, {
    args: [...args],
    env,
    stdin: "null",
  }).outputSync();
  const decoder = new TextDecoder();
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}
