/**
 * The component of deploy/multus/daemon: that it fits the DaemonSet, and the
 * command that it runs.
 */

import { assert, assertEquals } from "@std/assert";
import { load } from "js-yaml";
import { parseFlags } from "./_harness/tool_call.ts";
import { DAEMON_FLAGS, readDaemonOptions } from "../node/daemon/options.ts";
import { INSTALL_FLAGS } from "../node/multus/install/install_flags.ts";
import { readInstallOptions } from "../node/multus/install/options.ts";
import { pluginNames } from "../plugins/registry.ts";

// What is read is as untyped as YAML is, and tests see to what they need.
// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
type Manifest = any;

function read(file: string): Manifest {
  const url = new URL(`../deploy/multus/${file}`, import.meta.url);
  return load(Deno.readTextFileSync(url));
}

const patch = read("daemon/daemonset.yaml");
const base = read("daemonset.yaml");
const { containers: [container], ...others } = patch.spec.template.spec;
const pod = base.spec.template.spec;

Deno.test("daemon component: it is one, of what is in its folder", () => {
  const { kind, patches } = read("daemon/kustomization.yaml");
  assertEquals(kind, "Component");
  const { name } = base.metadata;
  assertEquals(patches, [
    { path: "socket_dir.yaml", target: { kind: base.kind, name } },
    { path: "daemonset.yaml" },
  ]);
});

Deno.test("daemon component: it adds to the DaemonSet", () => {
  const { kind, metadata: { name, namespace } } = patch;
  assertEquals(kind, base.kind);
  assertEquals([name, namespace], [
    base.metadata.name,
    base.metadata.namespace,
  ]);
  const names = [...pod.initContainers, ...pod.containers]
    .map(({ name }: Manifest) => name);
  assert(!names.includes(container.name));
  assertEquals(container.image, pod.containers[0].image);
  assertEquals(others, { hostPID: true, terminationGracePeriodSeconds: 20 });
});

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

Deno.test("daemon component: the container can follow its command line", () => {
  const options = readOptions(container);
  assertEquals(options.nodeName, "spec.nodeName");
  // As the service account, which it takes along to the host.
  assertEquals(options.kubeconfig, "");
  assertEquals(options.hostNamespace, "/proc/1/ns/mnt");
  assertEquals(container.volumeMounts, undefined);
});

Deno.test("daemon component: the kubelet asks where the daemon listens", () => {
  const { metricsAddress } = readOptions(container);
  const probes = [container.readinessProbe, container.livenessProbe];
  for (const { httpGet: { host, port } } of probes) {
    assertEquals(metricsAddress, { hostname: host, port });
  }
  assertEquals(probes.map(({ httpGet }) => httpGet.path), [
    "/readyz",
    "/healthz",
  ]);
});

Deno.test("daemon component: multus asks the daemon", () => {
  const [test, add] = read("daemon/socket_dir.yaml");
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

Deno.test("daemon component: the daemon may enter the host, and has the host's network", () => {
  const { securityContext } = container;
  assertEquals(securityContext.privileged, true);
  assertEquals(securityContext.readOnlyRootFilesystem, true);
  // Only root finds the socket, and must have made it.
  assertEquals(securityContext.runAsUser, 0);
  assertEquals(pod.hostNetwork, true);
});

const unit = Deno.readTextFileSync(
  new URL("../deploy/daemon/cni-daemon.service", import.meta.url),
);

/** Returns the value of a key of the systemd unit. */
function valueOf(key: string): string | undefined {
  return unit.split("\n").find((line) => line.startsWith(`${key}=`))
    ?.slice(key.length + 1);
}

Deno.test("systemd unit: it runs the daemon, and makes its folder", () => {
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
