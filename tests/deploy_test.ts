/**
 * What deploy/ has: that Kubernetes and systemd understand it, and that it runs
 * commands that exist.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { basename } from "@std/path/posix";
import { loadAll } from "js-yaml";
import project from "../deno.json" with { type: "json" };
import node from "../package.json" with { type: "json" };
import { cni } from "../cli/commands.ts";
import { canUseNetns, hasCommand } from "../testing/capabilities.ts";
import { importFlags } from "../scripts/import_flags.ts";
import { parseCommandLine } from "../base/command_line/parse.ts";
import {
  CHART,
  DEPLOY,
  listDeployFiles,
  needsKubectl,
} from "./_harness/helm.ts";
import { findTool } from "./_harness/peers.ts";
import { eachRow } from "./_harness/table.ts";

const ROOT = new URL("../", import.meta.url).pathname;

/** Lists the files below deploy/ with one of these ends, but the chart's. */
function listFiles(...ends: readonly string[]): string[] {
  return listDeployFiles().filter((path) =>
    !path.startsWith(`${CHART}/`) && ends.some((end) => path.endsWith(end))
  );
}

// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
type Manifest = any;

/** Names the module of kubernetes-types with a kind: `rbac/v1` for `rbac.authorization.k8s.io/v1`. */
function toModule(apiVersion: string): string {
  if (apiVersion === "v1") return "core/v1";
  return apiVersion.replace(/^([a-z]+)[a-z.]*\.k8s\.io/, "$1");
}

/** Kinds that the API server does not know: kustomize and kind read them. */
const OTHERS = ["Kustomization", "Component", "Cluster"];

Deno.test("deploy: manifests match the types of Kubernetes", async () => {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(file, formatModule());
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--config=deno.json", ...await importFlags(), file],
      cwd: ROOT,
    }).output();
    const text = new TextDecoder().decode(stderr);
    // It may be shown relative to the working directory.
    assert(success && text.includes(basename(file)), text);
  } finally {
    await Deno.remove(file);
  }
});

/** Leaves out Kubernetes's extensions of JSON Schema, which the types do not have. */
function dropExtensions(key: string, value: unknown): unknown {
  return key.startsWith("x-kubernetes-") ? undefined : value;
}

/** Writes a module that has types only if the manifests are right. */
function formatModule(): string {
  const lines: string[] = [];
  // The rules are Prometheus's; promtool looks at them.
  const manifests = listFiles(".yaml")
    .filter((path) => !path.endsWith("/monitoring/rules.yaml"));
  for (const path of manifests) {
    for (const object of loadAll(Deno.readTextFileSync(path)) as Manifest[]) {
      // A list is a JSON patch.
      if (Array.isArray(object) || OTHERS.includes(object.kind)) continue;
      const module = toModule(object.apiVersion);
      // The component patches an object that has a selector.
      if (path.includes("/daemon/")) object.spec.selector = {};
      const type = `Type${lines.length}`;
      lines.push(
        `// ${path}`,
        `import type { ${object.kind} as ${type} } from "kubernetes-types/${module}";`,
        `(${JSON.stringify(object, dropExtensions, 1)}) satisfies ${type};`,
      );
    }
  }
  return lines.join("\n");
}

for (const name of ["daemonset", "uninstall"]) {
  Deno.test(`deploy: the plugins' ${name} has mounts for its command line`, () => {
    const path = `${DEPLOY}plugins/${name}.yaml`;
    const [{ spec }] = loadAll(Deno.readTextFileSync(path)) as Manifest[];
    const { initContainers: [container], volumes } = spec.template.spec;
    const { row, args: [directory] } = parseCommandLine(cni, container.args);
    assert(row !== undefined);
    const mount = container.volumeMounts
      .find(({ mountPath }: Manifest) => mountPath === directory);
    const volume = volumes.find(({ name }: Manifest) => name === mount.name);
    assertEquals(volume.hostPath.path, "/opt/cni/bin");
  });
}

Deno.test("deploy: images copy the executable from its build directory", () => {
  const files = listFiles("Containerfile");
  assertEquals(files.length, 3);
  for (const path of files) {
    const text = Deno.readTextFileSync(path);
    assert(/^ARG BIN=dist\/bin$/m.test(text), path);
    assert(/^COPY \$\{BIN\}\/(cni|multus) \S+$/m.test(text), path);
  }
});

const WORKFLOWS = `${ROOT}.github/workflows`;

/** Lists the jobs of all workflows. */
function listJobs(): Manifest[] {
  return [...Deno.readDirSync(WORKFLOWS)].flatMap(({ name }) => {
    const text = Deno.readTextFileSync(`${WORKFLOWS}/${name}`);
    const [workflow] = loadAll(text) as Manifest[];
    return Object.values(workflow.jobs);
  });
}

Deno.test("deploy: workflows run tasks that exist, with the pinned Deno", () => {
  const commands = listJobs().flatMap(({ steps, strategy }) =>
    [...steps, ...strategy?.matrix.include ?? []]
      .flatMap(({ run = "", command = "" }: Manifest) =>
        `${run}\n${command}`.split("\n")
      )
  ).filter((line) => /deno@|deno\.sh/.test(line));
  assert(commands.length >= 10);
  for (const command of commands) {
    const [, version = "", task = ""] =
      /(?:npx\S* --yes deno@(\S+)|release\/deno\.sh) (?:task (\S+)|check)(?: .+)?$/
        .exec(command) ?? [];
    if (!command.includes("deno.sh")) {
      assertEquals(version, node.engines.deno, command);
    }
    if (command.includes(" check ")) continue;
    assert(Object.hasOwn(project.tasks, task), command);
  }
});

Deno.test("deploy: jobs that build or publish compare Deno's digest first", () => {
  const text = Deno.readTextFileSync(`${WORKFLOWS}/release.yaml`);
  const [{ jobs: { build } }] = loadAll(text) as Manifest[];
  const publishing = listJobs()
    .filter(({ permissions }) => permissions?.["id-token"] === "write");
  assert(publishing.length >= 2);
  for (const { steps } of [build, ...publishing]) {
    const runs = steps.map(({ run = "" }: Manifest) => run).join("\n");
    assert(!/\bnpx\b|\bnpm (ci|install|exec)\b/.test(runs), runs);
  }
});

Deno.test("deploy: workflows run scripts that exist", () => {
  const names = listJobs().flatMap(({ steps }) =>
    steps.flatMap(({ run = "" }: Manifest) =>
      run.match(/\bscripts\/[\w./-]+/g) ?? []
    )
  );
  assert(names.length >= 3);
  for (const name of names) assert(Deno.statSync(ROOT + name).isFile, name);
});

Deno.test("deploy: workflows pin actions by commit, with the version in a comment", () => {
  const uses = [...Deno.readDirSync(WORKFLOWS)].flatMap(({ name }) =>
    Deno.readTextFileSync(`${WORKFLOWS}/${name}`).match(/^.*\buses:.*$/gm) ?? []
  );
  assert(uses.length > 5);
  for (const line of uses) {
    assertMatch(line, /uses: [\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  }
  // One version of each.
  const actions = new Set(uses.map((line) => line.replace(/^.*uses: /, "")));
  const names = new Set([...actions].map((one) => one.replace(/@.*/, "")));
  assertEquals(actions.size, names.size);
});

const actionlint = findTool("actionlint");
Deno.test({
  name: "deploy: actionlint accepts the workflows" +
    (actionlint ? "" : " (skipped: needs go and its module proxy)"),
  ignore: actionlint === undefined,
  fn(): void {
    const files = [...Deno.readDirSync(WORKFLOWS)]
      .map(({ name }) => `${WORKFLOWS}/${name}`);
    const { code, stdout } = new Deno.Command(actionlint ?? "", {
      // A shell's rules depend on what is installed.
      args: ["-no-color", "-shellcheck=", "-pyflakes=", ...files],
    }).outputSync();
    assertEquals([code, new TextDecoder().decode(stdout)], [0, ""]);
  },
});

/** Directories, what is appended to their kustomization, and the containers. */
const KUSTOMIZATIONS: readonly [string, string, readonly string[]][] = [
  ["multus", "", ["install-multus", "kube-multus"]],
  [
    "multus",
    "components: [daemon]",
    [
      "install-multus",
      "multus-daemon",
      "kube-multus --daemon-socket-dir=/run/multus",
    ],
  ],
  ["plugins", "", ["install", "cni-daemon", "pause"]],
  ["daemon", "", ["cni-daemon"]],
  ["monitoring", "", []],
  ["whereabouts", "", ["cluster-gc"]],
];

Deno.test({
  name: `deploy: kustomize builds every directory${needsKubectl.suffix}`,
  ignore: needsKubectl.ignore,
  fn: async (t) => {
    const nameOf = ([directory, more]: readonly [string, string, unknown]) =>
      `${directory} ${more}`.trim();
    await eachRow(t, KUSTOMIZATIONS, ([directory, more, containers]) => {
      const built = kustomize(directory, more);
      assertEquals(describe(built), describe(listObjects(directory)));
      assertEquals(built.flatMap(listContainers), containers);
    }, nameOf);
  },
});

/** Lists the objects that a kustomization names. */
function listObjects(directory: string): Manifest[] {
  // It has that of the plugins, with another name.
  if (directory === "daemon") {
    const [object] = listObjects("plugins");
    const { namespace } = object.metadata;
    return [{ ...object, metadata: { name: "cni-daemon", namespace } }];
  }
  const read = (file: string): Manifest[] =>
    loadAll(
      Deno.readTextFileSync(`${DEPLOY}${directory}/${file}`),
    ) as Manifest[];
  const [kustomization] = read("kustomization.yaml");
  const { resources = [], configMapGenerator = [], namespace } = kustomization;
  const generated = configMapGenerator.map(({ name }: Manifest) => ({
    kind: "ConfigMap",
    metadata: { name, namespace },
  }));
  return [...resources.flatMap(read), ...generated];
}

/** Has kubectl build a directory in a copy of all. */
function kustomize(directory: string, more: string): Manifest[] {
  const copy = Deno.makeTempDirSync({ prefix: "cni-test-" });
  const args = ["-r", `${DEPLOY}.`, copy];
  new Deno.Command("cp", { args }).outputSync();
  const file = `${copy}/${directory}/kustomization.yaml`;
  Deno.writeTextFileSync(file, `\n${more}\n`, { append: true });
  const { success, stdout, stderr } = new Deno.Command("kubectl", {
    args: ["kustomize", `${copy}/${directory}`],
  }).outputSync();
  Deno.removeSync(copy, { recursive: true });
  const decoder = new TextDecoder();
  assert(success, decoder.decode(stderr));
  return loadAll(decoder.decode(stdout)) as Manifest[];
}

function describe(objects: readonly Manifest[]): string[] {
  return objects.map(({ kind, metadata: { name, namespace } }) =>
    `${kind} ${namespace} ${name}`
  ).toSorted();
}

/** Lists the containers of an object's pods, with the daemon's directory if they name it. */
function listContainers({ spec }: Manifest): string[] {
  const pod = (spec?.jobTemplate?.spec ?? spec)?.template?.spec;
  return [...pod?.initContainers ?? [], ...pod?.containers ?? []]
    .map(({ name, args = [] }) => {
      const isNamed = (arg: string): boolean =>
        arg.startsWith("--daemon-socket-dir=");
      return [name, ...args.filter(isNamed)].join(" ");
    });
}

const units = listFiles(".service", ".timer", ".socket");
/** Parses the command line of a timer's unit. */
function parseUnit(name: string): ReturnType<typeof parseCommandLine> {
  const text = Deno.readTextFileSync(`${DEPLOY}systemd/${name}`);
  const [, path = "", args = ""] = /^ExecStart=(\S+\/cni) (.+)$/m.exec(text) ??
    [];
  assertMatch(text, new RegExp(`^ConditionFileIsExecutable=${path}$`, "m"));
  return parseCommandLine(cni, args.split(" "));
}

Deno.test("deploy: the timers' units run commands that exist", () => {
  const gc = parseUnit("cni-gc.service");
  assertEquals(gc.row?.name, "gc");
  assertEquals([gc.flags["orphans"], gc.flags["yes"]], [true, true]);
  const metrics = parseUnit("cni-metrics.service");
  assertEquals(metrics.row?.name, "metrics");
  assertEquals(String(metrics.flags["textfile"]).split(".").at(-1), "prom");
  const findings = parseUnit("cni-findings.service");
  assertEquals([findings.row?.name, findings.flags["findings"]], [
    "metrics",
    true,
  ]);
  assert(findings.flags["textfile"] !== metrics.flags["textfile"]);
});

const noSystemd = !hasCommand("systemd-analyze");
Deno.test({
  name: "deploy: systemd-analyze accepts the units" +
    (noSystemd ? " (skipped: needs systemd-analyze)" : ""),
  ignore: noSystemd,
  fn(): void {
    assertEquals(units.length, 9);
    // As root it leaves a file in /run.
    const hideRun = 'mount -t tmpfs tmpfs /run && exec "$@"';
    const [program = "", ...args] = [
      ...canUseNetns ? ["unshare", "-m", "sh", "-c", hideRun, "sh"] : [],
      "systemd-analyze",
    ];
    const { stderr } = new Deno.Command(program, {
      args: [...args, "verify", ...units],
    }).outputSync();
    const said = new TextDecoder().decode(stderr).split("\n")
      // The executable is not installed here.
      .filter((line) =>
        line.includes("cni-") && !line.includes("is not executable")
      );
    assertEquals(said, []);
  },
});
