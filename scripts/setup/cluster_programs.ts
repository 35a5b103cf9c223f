/**
 * Builds the programs of the cluster that `deno task test:cluster` starts.
 *
 * @module
 */

import { ROOT } from "../project.ts";
import { type GoRun, type RunningBuild, startBuild } from "./go_build.ts";

/** Releases that the cluster is made of. */
export const RELEASES = {
  kubernetes: "v1.37.2",
  containerd: "v2.4.2",
  etcd: "v3.7.3",
} as const;

/** Where the programs are; another directory for each set of releases. */
export const PROGRAMS_DIRECTORY: string = `${ROOT}build/peers/cluster-${
  Object.values(RELEASES).join("-")
}`;

/** How long the module proxy may take for one answer. */
const DOWNLOAD_MS = 5 * 60_000;
/** How long the largest build may take: some 20 minutes of a processor. */
const BUILD_MS = 90 * 60_000;

const KUBERNETES = "k8s.io/kubernetes";
const KUBERNETES_PROGRAMS = [
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "kubectl",
];
const CONTAINERD = "github.com/containerd/containerd/v2";
const CONTAINERD_PROGRAMS = ["containerd", "containerd-shim-runc-v2", "ctr"];
const ETCD = "go.etcd.io/etcd/server/v3";

/**
 * Starts to build the programs, unless they are there.
 *
 * @param stop Ends the build
 */
export function startClusterPrograms(stop: AbortSignal): Promise<RunningBuild> {
  return startBuild(stop, { directory: PROGRAMS_DIRECTORY, go: "go", make });
}

type Run = (go: GoRun) => Promise<string>;

async function make(unfinished: string, run: Run): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const modules = await Deno.makeTempDir({ prefix: "cni-cluster-build-" });
  stack.defer(() => Deno.remove(modules, { recursive: true }));
  const build = async (
    name: string,
    goMod: string,
    flags: readonly string[],
    packages: readonly string[],
  ): Promise<void> => {
    const cwd = `${modules}/${name}`;
    await Deno.mkdir(cwd);
    await Deno.writeTextFile(`${cwd}/go.mod`, `module ${name}\n\n${goMod}`);
    const env = { GOFLAGS: "-mod=mod -buildvcs=false" };
    await run({
      // The linker needs 2 GiB: not one for each processor.
      args: ["build", "-p=2", ...flags, "-o", `${unfinished}/`, ...packages],
      limitMs: BUILD_MS,
      env,
      cwd,
    });
  };
  await Deno.mkdir(unfinished, { recursive: true });
  await build(
    "containerd",
    await requireModule(run, CONTAINERD, RELEASES.containerd),
    [`-ldflags=-s -w -X ${CONTAINERD}/version.Version=${RELEASES.containerd}`],
    CONTAINERD_PROGRAMS.map((program) => `${CONTAINERD}/cmd/${program}`),
  );
  await build(
    "etcd",
    await requireModule(run, ETCD, RELEASES.etcd),
    ["-ldflags=-s -w"],
    [ETCD],
  );
  // The module's path ends in its major version, which would be the name.
  await Deno.rename(`${unfinished}/server`, `${unfinished}/etcd`);
  const variable = "k8s.io/component-base/version.gitVersion";
  await build(
    "kubernetes",
    await requireKubernetes(run),
    [`-ldflags=-s -w -X ${variable}=${RELEASES.kubernetes}`],
    KUBERNETES_PROGRAMS.map((program) => `${KUBERNETES}/cmd/${program}`),
  );
}

/** Returns the go.mod of a program that uses one module, in the Go that it needs. */
async function requireModule(
  run: Run,
  path: string,
  version: string,
): Promise<string> {
  const { text } = await downloadGoMod(run, path, version);
  const go = /^go (\S+)$/m.exec(text)?.[1] ?? "1.24";
  return `go ${go}\n\nrequire ${path} ${version}\n`;
}

/**
 * Returns the go.mod of a program that uses Kubernetes. That one replaces its
 * parts by directories which its archive lacks, but which are modules as well:
 * v0.37.2 belongs to v1.37.2.
 */
async function requireKubernetes(run: Run): Promise<string> {
  const version = RELEASES.kubernetes;
  const { text } = await downloadGoMod(run, KUBERNETES, version);
  const parts = [...text.matchAll(/^\s*(\S+) => \.\/staging\//gm)]
    // Nothing needs it, and it is not published.
    .map(([, part = ""]) => part).filter((part) =>
      !part.endsWith("sample-controller")
    );
  const lines = parts.map((part) =>
    `replace ${part} => ${part} ${version.replace("v1.", "v0.")}\n`
  );
  return await requireModule(run, KUBERNETES, version) + lines.join("");
}

async function downloadGoMod(
  run: Run,
  path: string,
  version: string,
): Promise<{ readonly text: string }> {
  const args = ["mod", "download", "-json", `${path}@${version}`];
  const { GoMod } = JSON.parse(await run({ args, limitMs: DOWNLOAD_MS }));
  return { text: await Deno.readTextFile(GoMod) };
}
