/**
 * The manifests of deploy/multus: that they fit each other, the command that
 * they run, and what multus asks of the API server.
 */

import { assert, assertEquals, assertExists, assertMatch } from "@std/assert";
import { loadAll } from "js-yaml";
import { createLog } from "../../../base/log/log.ts";
import { openKubeClient } from "../../../kube/client.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { parseFlags } from "../../../tests/_harness/tool_call.ts";
import { Executable } from "../install/executable.ts";
import { INSTALL_FLAGS } from "../install/options.ts";
import { readInstallOptions } from "../install/options.ts";
import { pluginNames, programNames } from "../../registry.ts";
import { deadlineWhen } from "../../../tests/_harness/eventually.ts";
import { KubeApi } from "../../../kube/testing/kube_api.ts";
import { findTarget, verbOf } from "../../../kube/testing/target.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";

const DIRECTORY = new URL("../../../deploy/multus/", import.meta.url);

// What is read is as untyped as YAML is, and tests see to what they need.
// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
type Manifest = any;

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, DIRECTORY));
}

const kustomization: Manifest = loadAll(read("kustomization.yaml"))[0];
const objects: Manifest[] = kustomization.resources
  .flatMap((file: string) => loadAll(read(file)));

/** Finds the only object of a kind. */
function only(kind: string): Manifest {
  const found = objects.filter((object) => object.kind === kind);
  assertEquals(found.length, 1, kind);
  return found[0];
}

const daemonSet = only("DaemonSet");
const pod = daemonSet.spec.template.spec;
const containers: Manifest[] = [...pod.initContainers, ...pod.containers];

Deno.test("manifests: kustomization.yaml lists all manifests and their images", () => {
  const files = [...Deno.readDirSync(DIRECTORY)].map(({ name }) => name)
    .filter((name) => name.endsWith(".yaml"))
    .filter((name) => !["kustomization.yaml", "uninstall.yaml"].includes(name));
  assertEquals(kustomization.resources.toSorted(), files.toSorted());
  const images = kustomization.images.map(({ name }: Manifest) => name);
  for (const { image } of containers) {
    assert(images.includes(image.split(":")[0]), image);
  }
});

Deno.test("manifests: every object has a kind, a version and a name of its own", () => {
  const names = objects.map(({ apiVersion, kind, metadata }) => {
    assertExists(apiVersion);
    return `${kind} ${metadata.name}`;
  });
  assertEquals(new Set(names).size, names.length);
  assertEquals(names.toSorted(), [
    "ClusterRole multus",
    "ClusterRoleBinding multus",
    "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io",
    "DaemonSet kube-multus-ds",
    "ServiceAccount multus",
  ]);
});

Deno.test("manifests: the DaemonSet's pods have the role", () => {
  const account = only("ServiceAccount").metadata;
  const binding = only("ClusterRoleBinding");
  assertEquals(daemonSet.metadata.namespace, account.namespace);
  assertEquals(pod.serviceAccountName, account.name);
  assertEquals(binding.subjects, [{
    kind: "ServiceAccount",
    name: account.name,
    namespace: account.namespace,
  }]);
  assertEquals(binding.roleRef.kind, "ClusterRole");
  assertEquals(binding.roleRef.name, only("ClusterRole").metadata.name);
});

Deno.test("manifests: the selector matches the pods, as in upstream multus", () => {
  const { matchLabels } = daemonSet.spec.selector;
  // It cannot be changed where the reference's DaemonSet is replaced.
  assertEquals(matchLabels, { name: "multus" });
  const { labels } = daemonSet.spec.template.metadata;
  assertEquals(labels.name, matchLabels.name);
});

Deno.test("manifests: every mount has its volume, and every volume is mounted", () => {
  const volumes = pod.volumes.map(({ name }: Manifest) => name);
  assertEquals(new Set(volumes).size, volumes.length);
  const mounts = containers.flatMap(({ volumeMounts }) =>
    volumeMounts.map(({ name }: Manifest) => name)
  );
  assertEquals([...new Set(mounts)].toSorted(), volumes.toSorted());
  for (const { configMap } of pod.volumes) {
    if (configMap !== undefined) {
      assertEquals(only("ConfigMap").metadata.name, configMap.name);
    }
  }
});

for (const container of containers) {
  Deno.test(`manifests: ${container.name} has mounts for the paths of its command line`, () => {
    const [command, ...flags] = container.args;
    assertEquals(command, "install");
    const names = {
      pluginNames,
      knownNames: [...pluginNames, ...programNames],
    };
    const values = parseFlags("multus install", INSTALL_FLAGS, flags);
    const call = { command: "multus install", flags: values, env: {} };
    const options = readInstallOptions(call, names);
    assertExists(options.executable);
    const mounts: Manifest[] = container.volumeMounts;
    const paths = [options.executable.directory, options.credentials.directory];
    const { configuration } = options;
    if (configuration !== undefined && "masterDirectory" in configuration) {
      paths.push(configuration.directory, configuration.masterDirectory);
    }
    for (const path of paths) {
      assert(mounts.some(({ mountPath }) => isBelow(path, mountPath)), path);
    }
    assertEquals(
      toNodePath(`${options.credentials.directory}/multus.kubeconfig`, mounts),
      options.credentials.hostPath,
    );
  });

  Deno.test(`manifests: ${container.name} has exactly the privileges that it needs`, () => {
    const { securityContext } = container;
    assertEquals(securityContext.privileged, undefined);
    assertEquals(securityContext.allowPrivilegeEscalation, false);
    assertEquals(securityContext.capabilities, {
      drop: ["ALL"],
      add: ["DAC_OVERRIDE"],
    });
    assertEquals(securityContext.readOnlyRootFilesystem, true);
  });

  Deno.test(`manifests: ${container.name} has resource requests and limits`, () => {
    const { requests, limits } = container.resources;
    assertMatch(requests.cpu, /^\d+m$/);
    // What the process takes is about 45 MiB.
    const [request = 0, limit = 0] = [requests.memory, limits.memory]
      .map((size) => Number(/^(\d+)Mi$/.exec(size)?.[1]));
    assert(request >= 50 && limit > request, `${request} ${limit}`);
    assertEquals(limits.cpu, undefined);
  });
}

function isBelow(path: string, directory: string): boolean {
  return `${path}/`.startsWith(`${directory}/`);
}

/** Turns a path of a container into what the node calls it. */
function toNodePath(path: string, mounts: readonly Manifest[]): string {
  const mount = mounts.find(({ mountPath }) => isBelow(path, mountPath));
  const volume = pod.volumes
    .find(({ name }: Manifest) => name === mount.name);
  return volume.hostPath.path + path.slice(mount.mountPath.length);
}

Deno.test("manifests: one container installs first, the other one watches", () => {
  const [install, watch] = containers;
  assertEquals(containers.length, 2);
  assert(!install.args.includes("--watch"), install.args.join(" "));
  assert(install.args.includes("--multus-conf-file=none"));
  assert(watch.args.includes("--watch"), watch.args.join(" "));
});

Deno.test("manifests: the pods run on every node, before there is a network", () => {
  assertEquals(pod.hostNetwork, true);
  assertEquals(pod.priorityClassName, "system-node-critical");
  const effects = pod.tolerations.map(({ operator, effect }: Manifest) => {
    assertEquals(operator, "Exists");
    return effect;
  });
  assertEquals(effects, ["NoSchedule", "NoExecute"]);
});

Deno.test("manifests: the image has the executable where it is started", () => {
  const containerfile = read("Containerfile");
  const [, bin] = /^ARG BIN=(\S+)$/m.exec(containerfile) ?? [];
  assertEquals(bin, "dist/bin");
  const [, target] = /^COPY \$\{BIN\}\/multus (\S+)$/m.exec(containerfile) ??
    [];
  const [, entry] = /^ENTRYPOINT (.+)$/m.exec(containerfile) ?? [];
  assertEquals(JSON.parse(entry ?? ""), [target]);
  for (const { command } of containers) assertEquals(command, undefined);
});

Deno.test("manifests: the CRD equals upstream multus' CRD, with a schema for the configuration", async (t) => {
  const { spec } = only("CustomResourceDefinition");
  assertEquals([spec.group, spec.scope], ["k8s.cni.cncf.io", "Namespaced"]);
  assertEquals(spec.names.plural, "network-attachment-definitions");
  assertEquals(spec.names.singular, "network-attachment-definition");
  assertEquals(spec.names.kind, "NetworkAttachmentDefinition");
  assertEquals(spec.names.shortNames, ["nad", "net-attach-def"]);
  const [version] = spec.versions;
  assertEquals([version.name, version.served, version.storage], [
    "v1",
    true,
    true,
  ]);
  const { config } = version.schema.openAPIV3Schema.properties.spec.properties;
  assertEquals(config.type, "string");
  const pattern = new RegExp(config.pattern);
  const rows: [string, boolean][] = [
    ["", true],
    ["\n", true],
    ["{}", true],
    ['\n  {\n  "type": "x"\n}\n', true],
    ["[]", false],
    ['"x"', false],
    ["{", false],
    ["type: macvlan", false],
  ];
  await eachRow(t, rows, ([text, isValid]) => {
    assertEquals(pattern.test(text), isValid);
  }, ([text]) => JSON.stringify(text));
});

/** Lists what a role allows, as `get pods/status`. */
function listRights(): string[] {
  return only("ClusterRole").rules.flatMap(
    ({ apiGroups, resources, verbs }: Manifest) =>
      apiGroups.flatMap((group: string) =>
        resources.flatMap((resource: string) =>
          verbs.map((verb: string) => formatRight(verb, resource, group))
        )
      ),
  );
}

function formatRight(verb: string, resource: string, group: string): string {
  return group === "" ? `${verb} ${resource}` : `${verb} ${resource}.${group}`;
}

/** Finds the right that a request needs. */
function rightOf(method: string, url: string): string {
  const { pathname, searchParams } = new URL(url, "http://server");
  const target = findTarget(pathname);
  assertExists(target, url);
  const { resource: { name, group }, subresource } = target;
  const full = subresource === "" ? name : `${name}/${subresource}`;
  return formatRight(verbOf(method, target, searchParams), full, group);
}

Deno.test("manifests: the role permits all requests to the API server", async () => {
  using directory = new ConfDirectory();
  await using api = await KubeApi.start();
  api.putPod({ metadata: { name: "p", namespace: "test" } });
  api.putNad("test", "n", { type: "ptp" });
  const kubeconfig = api.writeKubeconfig(directory.path, "token");
  using client = await openKubeClient({ kubeconfig, env: {} });
  assertExists(client);
  const pod = { namespace: "test", name: "p" };
  await client.getPod("test", "p");
  await client.getNetworkAttachmentDefinition("test", "n");
  await client.setPodAnnotations(pod, { a: "b" });
  api.forbid("patch", "pods/status");
  await client.setPodAnnotations(pod, { a: "c" });
  await client.createEvent("test", {
    metadata: { name: "e", namespace: "test" },
    involvedObject: { kind: "Pod", ...pod },
  });
  await client.getResourceClaim("test", "c").catch(() => {});
  await client.listResourceSlices({ driver: "d", nodeName: "n" });
  const watched = [
    "/api/v1/pods",
    "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions",
  ];
  for (const path of watched) {
    const { metadata } = await client.list(path);
    const asked = api.requests.length;
    const signal = deadlineWhen(() => api.requests.length > asked);
    const resourceVersion = metadata?.resourceVersion ?? "";
    const events = client.watch(path, { resourceVersion, signal });
    await events.next().catch(() => {});
  }
  const needed = api.requests.map(({ method, path }) => rightOf(method, path));
  const rights = listRights();
  assertEquals(
    [...new Set(needed)].filter((right) => !rights.includes(right)),
    [],
  );
  const unused = rights.filter((right) => !needed.includes(right));
  assertEquals(unused, []);
});

Deno.test("manifests: uninstall.yaml restores the files that --plugins replaced", async () => {
  using directory = new ConfDirectory({
    "etc/cni/net.d/10-pods.conflist": "{}",
    "etc/cni/net.d/00-multus.conflist": "{}",
    "etc/cni/net.d/multus.d/token": "t",
    "var/lib/cni/multus/scratch": "s",
    "var/lib/cni/results/pods": "r",
    "opt/cni/bin/ptp": "another program",
    "opt/cni/bin/bridge": "not replaced",
    "executable": "ours",
  });
  const bin = `${directory.path}/opt/cni/bin`;
  const executable = new Executable({
    source: `${directory.path}/executable`,
    directory: bin,
    links: ["ptp", "vlan"],
    replacesOthers: true,
  }, createLog({}, () => {}));
  await executable.ensure();
  assertEquals(await Deno.readTextFile(`${bin}/ptp`), "ours");
  const [{ spec }] = loadAll(read("uninstall.yaml")) as Manifest[];
  const [{ command, args }] = spec.template.spec.initContainers;
  const script = args[0].replaceAll("/host/", `${directory.path}/`);
  const { success, stderr } = await new Deno.Command(command[0], {
    args: [...command.slice(1), script],
  }).output();
  assertEquals([new TextDecoder().decode(stderr), success], ["", true]);
  const left = new Deno.Command("find", {
    args: [directory.path, "-type", "f", "-printf", "%P\n"],
  }).outputSync();
  assertEquals(new TextDecoder().decode(left.stdout).split("\n").sort(), [
    "",
    "etc/cni/net.d/10-pods.conflist",
    "executable",
    "opt/cni/bin/bridge",
    "opt/cni/bin/ptp",
    "var/lib/cni/results/pods",
  ]);
  assertEquals(await Deno.readTextFile(`${bin}/ptp`), "another program");
});
