/**
 * The components deploy/multus/daemon and deploy/plugins/daemon: that they fit
 * their DaemonSets, and the commands that they run.
 */

import { assert, assertEquals } from "@std/assert";
import { load } from "js-yaml";
import { testRows } from "./_harness/table.ts";
import { parseFlags } from "./_harness/tool_call.ts";
import { DAEMON_FLAGS, readDaemonOptions } from "../cli/daemon/options.ts";
import { INSTALL_FLAGS } from "../plugins/multus/install/options.ts";
import { readInstallOptions } from "../plugins/multus/install/options.ts";
import { pluginNames } from "../plugins/registry.ts";

// What is read is as untyped as YAML is, and tests see to what they need.
// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
type Manifest = any;

function read(file: string): Manifest {
  const url = new URL(`../deploy/${file}`, import.meta.url);
  return load(Deno.readTextFileSync(url));
}

/** A directory's DaemonSet, and the component that adds the daemon to it. */
function readDirectory(directory: string): Record<string, Manifest> {
  const patch = read(`${directory}/daemon/daemonset.yaml`);
  const base = read(`${directory}/daemonset.yaml`);
  const { containers: [container], ...others } = patch.spec.template.spec;
  return { patch, base, container, others, pod: base.spec.template.spec };
}

function readOptions(
  { args, env = [] }: Manifest,
): ReturnType<typeof readDaemonOptions> {
  const [command, ...flags] = args;
  assertEquals(command, "daemon");
  return readDaemonOptions({
    command: "multus daemon",
    flags: parseFlags("multus daemon", DAEMON_FLAGS, flags),
    env: Object.fromEntries(
      env.map(({ name, valueFrom }: Manifest) => [
        name,
        valueFrom.fieldRef.fieldPath,
      ]),
    ),
  });
}

const DIRECTORIES = ["multus", "plugins"];

testRows(
  "daemon component: it adds to the DaemonSet",
  DIRECTORIES,
  (directory) => {
    const { patch, base, container, others, pod } = readDirectory(directory);
    const { kind, metadata: { name, namespace } } = patch;
    assertEquals(kind, base.kind);
    assertEquals([name, namespace], [
      base.metadata.name,
      base.metadata.namespace,
    ]);
    const containers = [...pod.initContainers, ...pod.containers];
    assert(containers.every(({ name }: Manifest) => name !== container.name));
    assertEquals(container.image, pod.initContainers[0].image);
    assertEquals(others, { hostPID: true, terminationGracePeriodSeconds: 20 });
  },
);

testRows(
  "daemon component: the container can follow its command line",
  DIRECTORIES,
  (directory) => {
    const { container } = readDirectory(directory);
    const options = readOptions(container);
    // As the service account, which it takes along to the host.
    assertEquals(options.kubeconfig, "");
    assertEquals(options.hostNamespace, "/proc/1/ns/mnt");
    assertEquals(container.volumeMounts, undefined);
  },
);

testRows(
  "daemon component: the kubelet asks where the daemon listens",
  DIRECTORIES,
  (directory) => {
    const { container } = readDirectory(directory);
    const { metricsAddress } = readOptions(container);
    const probes = [container.readinessProbe, container.livenessProbe];
    for (const { httpGet: { host, port } } of probes) {
      assertEquals(metricsAddress, { hostname: host, port });
    }
    assertEquals(probes.map(({ httpGet }) => httpGet.path), [
      "/readyz",
      "/healthz",
    ]);
  },
);

testRows(
  "daemon component: the daemon may enter the host, and has the host's network",
  DIRECTORIES,
  (directory) => {
    const { container: { securityContext }, pod } = readDirectory(directory);
    assertEquals(securityContext.privileged, true);
    assertEquals(securityContext.readOnlyRootFilesystem, true);
    // Only root finds the socket, and must have made it.
    assertEquals(securityContext.runAsUser, 0);
    assertEquals(pod.hostNetwork, true);
  },
);

Deno.test("daemon component: both daemons can run on a node", () => {
  const places = DIRECTORIES.map((directory) => {
    const { socketDir, metricsAddress } = readOptions(
      readDirectory(directory).container,
    );
    return [socketDir, metricsAddress?.port];
  });
  assertEquals(places, [["/run/multus", 9467], ["/run/cni", 9468]]);
});

Deno.test("daemon component: the plugins' kustomization includes it", () => {
  const { resources, components, images } = read("plugins/kustomization.yaml");
  assertEquals([resources, components], [["daemonset.yaml"], ["daemon"]]);
  const { kind, patches } = read("plugins/daemon/kustomization.yaml");
  assertEquals([kind, patches], ["Component", [{ path: "daemonset.yaml" }]]);
  const { container } = readDirectory("plugins");
  assertEquals(container.image, `${images[0].name}:${images[0].newTag}`);
});

Deno.test("daemon component of multus: multus uses the daemon", () => {
  const { base, container, pod } = readDirectory("multus");
  assertEquals(readOptions(container).nodeName, "spec.nodeName");
  const { kind, patches } = read("multus/daemon/kustomization.yaml");
  assertEquals(kind, "Component");
  const { name } = base.metadata;
  assertEquals(patches, [
    { path: "socket_dir.yaml", target: { kind: base.kind, name } },
    { path: "daemonset.yaml" },
  ]);
  const [test, add] = read("multus/daemon/socket_dir.yaml");
  const [installer] = pod.containers;
  assertEquals(test, {
    op: "test",
    path: "/spec/template/spec/containers/0/name",
    value: installer.name,
  });
  assertEquals([add.op, add.path], [
    "add",
    "/spec/template/spec/containers/0/args/-",
  ]);
  const [, ...flags] = [...installer.args, add.value];
  const values = parseFlags("multus install", INSTALL_FLAGS, flags);
  const call = { command: "multus install", flags: values, env: {} };
  const { configuration } = readInstallOptions(call, {
    pluginNames,
    knownNames: pluginNames,
  });
  assert(configuration !== undefined && "keys" in configuration);
  assertEquals(
    configuration.keys["daemonSocketDir"],
    readOptions(container).socketDir,
  );
});

const unit = Deno.readTextFileSync(
  new URL("../deploy/daemon/cni-daemon.service", import.meta.url),
);

/** Returns the value of a key of the systemd unit. */
function valueOf(key: string): string | undefined {
  return unit.split("\n").find((line) => line.startsWith(`${key}=`))
    ?.slice(key.length + 1);
}

Deno.test("systemd unit: it runs the daemon, and creates its directory", () => {
  const [path, ...args] = valueOf("ExecStart")?.split(" ") ?? [];
  assertEquals(path, "/opt/cni/bin/cni");
  const { socketDir } = readOptions({ args });
  assertEquals(`/run/${valueOf("RuntimeDirectory")}`, socketDir);
  assertEquals(valueOf("RuntimeDirectoryMode"), "0700");
  // Other programs have files in /run/cni, such as the DHCP daemon's socket.
  assertEquals(valueOf("RuntimeDirectoryPreserve"), "yes");
  assertEquals(valueOf("Type"), "notify");
  assertEquals(valueOf("KillMode"), "process");
});
