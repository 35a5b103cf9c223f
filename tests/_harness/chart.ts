/**
 * The chart and the kustomizations of deploy/, as Helm and kubectl render them.
 *
 * @module
 */

import { loadAll } from "js-yaml";
import {
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { DEPLOY, type Ended, HELM, helm, run } from "./helm.ts";

/** The chart's directory. */
export const CHART = `${DEPLOY}chart`;

/** Skips tests that need Helm itself, not only what it says of the chart. */
export const needsHelm: Needs = ignoreUnless(
  HELM !== undefined,
  "needs helm: run scripts/go_plugins.ts",
);

/** Skips tests that compare Helm with kustomize. */
export const needsKubectl: Needs = ignoreUnless(
  hasCommand("kubectl"),
  "needs kubectl",
);

// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
export type Manifest = any;

/** Runs `helm template` on the chart, and returns what it prints. */
export function template(values: object, ...flags: string[]): Ended {
  const args = ["template", "cni", "chart", "--namespace=kube-system"];
  return helm([...args, ...flags], values);
}

/** Renders the chart: its objects, and those of its hooks. */
export function render(
  values: object,
  ...flags: string[]
): { readonly objects: Manifest[]; readonly hooks: Manifest[] } {
  const { code, stdout, stderr } = template(values, ...flags);
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
