/**
 * Runs Helm on deploy/, or recalls what it printed.
 *
 * Building Helm takes longer than all tests of the chart, so `deno task test`
 * does not build it: tests/golden/helm.json has its answers, and the digest of
 * the files that they are about. With Helm (`deno task test:cluster` and
 * scripts/setup/go_plugins.ts build it), the tests run it and compare each answer with
 * the recorded one. CNI_RECORD_HELM=1 records them.
 *
 * @module
 */

import { sha256 } from "@noble/hashes/sha2.js";
import { assertEquals } from "@std/assert";
import { loadAll } from "js-yaml";
import {
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { findTool, TOOLS } from "./peers.ts";

const ROOT = new URL("../../", import.meta.url);
/** The directory deploy/. */
export const DEPLOY: string = decodeURIComponent(
  new URL("deploy/", ROOT).pathname,
);
const FILE = new URL("tests/golden/helm.json", ROOT);

/** The executable, if it has been built. */
export const HELM: string | undefined = findTool("helm");

/** How a program ended. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  /** Helm's is without log lines. */
  readonly stderr: string;
}

/** The file with the answers. */
interface Recorded {
  /** Helm, as `go install` takes it. */
  readonly helm: string;
  /** Identifies all files of deploy/. */
  readonly digest: string;
  /** Parts of answers, which share most of them. */
  readonly parts: string[];
  /** Answers by question. Their stdout lists the numbers of parts. */
  readonly answers: Record<
    string,
    Omit<Ended, "stdout"> & { stdout: number[] }
  >;
}

/** Directories that the chart consists of, through links. */
const PARTS = ["chart", "dhcp", "multus", "plugins", "whereabouts"];

const recorded: Recorded = JSON.parse(Deno.readTextFileSync(FILE));
const current = { helm: TOOLS.helm, digest: digestOfDeploy() };
const mayRecord = Deno.env.get("CNI_RECORD_HELM") === "1";

/**
 * Runs Helm in deploy/.
 *
 * @param args Paths in them are relative
 * @param values For `--values`
 * @throws {Error} If Helm is not here, and its answer is not known
 */
export function helm(args: readonly string[], values?: object): Ended {
  const json = values && JSON.stringify(values);
  const question = [...args, json ?? []].flat().join(" ");
  if (HELM === undefined) return recall(question);
  const ended = runHelm(HELM, args, json);
  if (mayRecord) record(question, ended);
  else if (isCurrent() && question in recorded.answers) {
    assertEquals(recall(question), ended);
  }
  return ended;
}

/** Reports whether the recorded answers are about deploy/ as it is now. */
export function isCurrent(): boolean {
  const { helm, digest } = recorded;
  return helm === current.helm && digest === current.digest;
}

/** What to do where an answer is not known. */
export const UNKNOWN =
  "deploy/ or its test has changed: record what Helm says now " +
  "(CONTRIBUTING.md tells how)";

function recall(question: string): Ended {
  const answer = isCurrent() ? recorded.answers[question] : undefined;
  if (answer === undefined) throw new Error(UNKNOWN);
  const stdout = answer.stdout.map((part) => recorded.parts[part]).join("");
  return { ...answer, stdout };
}

/** Answers of an earlier deploy/ are dropped. */
function record(question: string, { stdout, ...rest }: Ended): void {
  const none: Pick<Recorded, "parts" | "answers"> = { parts: [], answers: {} };
  const { parts, answers } = isCurrent() ? recorded : none;
  const numbers = stdout.split(/^(?=---\n)/m).map((part) => {
    if (!parts.includes(part)) parts.push(part);
    return parts.indexOf(part);
  });
  answers[question] = { ...rest, stdout: numbers };
  Object.assign(recorded, { ...current, parts, answers });
  Deno.writeTextFileSync(FILE, `${JSON.stringify(recorded, null, 1)}\n`);
}

/** Hashes what Helm reads; see deploy/chart/.helmignore. */
function digestOfDeploy(): string {
  const hash = sha256.create();
  for (const path of listDeployFiles()) {
    const name = path.slice(DEPLOY.length);
    const isRead = PARTS.some((part) => name.startsWith(`${part}/`)) &&
      !/README\.md$|\.service$|\.socket$/.test(name);
    if (!isRead) continue;
    hash.update(new TextEncoder().encode(name));
    hash.update(Deno.readFileSync(path));
  }
  return hash.digest().toHex();
}

/** Lists all files below deploy/, which symbolic links are not. */
export function listDeployFiles(directory: string = DEPLOY): string[] {
  return [...Deno.readDirSync(directory)].flatMap((entry) => {
    const path = `${directory}${entry.name}`;
    if (entry.isDirectory) return listDeployFiles(`${path}/`);
    return entry.isFile ? [path] : [];
  }).toSorted();
}

/** Runs it with a HOME of its own. */
function runHelm(
  program: string,
  args: readonly string[],
  values: string | undefined,
): Ended {
  const home = Deno.makeTempDirSync({ prefix: "cni-test-" });
  try {
    const file = `${home}/values.json`;
    if (values !== undefined) Deno.writeTextFileSync(file, values);
    const { code, stdout, stderr } = run(
      program,
      [...args, ...values === undefined ? [] : [`--values=${file}`]],
      { cwd: DEPLOY, env: { HOME: home } },
    );
    const isLogged = /^\d{4}\/\d\d\/\d\d .*\n/gm;
    return {
      code,
      stdout: stdout.replaceAll(DEPLOY, ""),
      stderr: stderr.replaceAll(DEPLOY, "").replace(isLogged, ""),
    };
  } finally {
    Deno.removeSync(home, { recursive: true });
  }
}

/** Runs a program without stdin. */
export function run(
  program: string,
  args: readonly string[],
  options: Pick<Deno.CommandOptions, "cwd" | "env"> = {},
): Ended {
  const { code, stdout, stderr } = new Deno.Command(program, {
    ...options,
    args: [...args],
    stdin: "null",
  }).outputSync();
  const decoder = new TextDecoder();
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}

/** The chart's directory. */
export const CHART = `${DEPLOY}chart`;

/** Skips tests that need Helm itself, not only what it says of the chart. */
export const needsHelm: Needs = ignoreUnless(
  HELM !== undefined,
  "needs helm: run scripts/setup/go_plugins.ts",
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
