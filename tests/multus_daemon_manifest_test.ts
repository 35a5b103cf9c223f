/**
 * The component of deploy/multus/daemon: that it fits the DaemonSet, and the
 * command that it runs.
 */

import { assert, assertEquals, assertExists } from "@std/assert";
import { load } from "js-yaml";
import { parseFlags } from "./_harness/tool_flags.ts";
import { DAEMON_FLAGS, readDaemonOptions } from "../node/daemon/options.ts";

// What is read is as untyped as YAML is, and tests see to what they need.
// deno-lint-ignore no-explicit-any -- a wrong path is a failed test
type Manifest = any;

function read(file: string): Manifest {
  const url = new URL(`../deploy/multus/${file}`, import.meta.url);
  return load(Deno.readTextFileSync(url));
}

const patch = read("daemon/daemonset.yaml");
const base = read("daemonset.yaml");
const { containers: [container], volumes } = patch.spec.template.spec;

Deno.test("daemon component: it is one, of what is in its folder", () => {
  const { kind, patches } = read("daemon/kustomization.yaml");
  assertEquals(kind, "Component");
  assertEquals(patches, [{ path: "daemonset.yaml" }]);
});

Deno.test("daemon component: it adds to the DaemonSet, and replaces nothing", () => {
  const { kind, metadata: { name, namespace } } = patch;
  assertEquals(kind, base.kind);
  assertEquals([name, namespace], [
    base.metadata.name,
    base.metadata.namespace,
  ]);
  const pod = base.spec.template.spec;
  const names = [...pod.initContainers, ...pod.containers, ...pod.volumes]
    .map(({ name }: Manifest) => name);
  for (const { name } of [container, ...volumes]) {
    assert(!names.includes(name), name);
  }
  assertEquals(container.image, pod.containers[0].image);
});

Deno.test("daemon component: the container can follow its command line", () => {
  const [command, ...flags] = container.args;
  assertEquals(command, "daemon");
  const env = Object.fromEntries(
    container.env.map(({ name, valueFrom }: Manifest) => [
      name,
      valueFrom.fieldRef.fieldPath,
    ]),
  );
  const values = parseFlags("multus daemon", {
    ...DAEMON_FLAGS,
    "socket-dir": { ...DAEMON_FLAGS["socket-dir"], default: "/run/multus" },
  }, flags);
  const options = readDaemonOptions({
    command: "multus daemon",
    flags: values,
    env,
  });
  assertEquals(options.nodeName, "spec.nodeName");
  // As the service account: there is no kubeconfig in the container.
  assertEquals(options.kubeconfig, "");
  const [{ mountPath, name }] = container.volumeMounts;
  assertEquals(mountPath, options.socketDir);
  const volume = volumes.find((one: Manifest) => one.name === name);
  assertExists(volume);
  // The plugin runs on the node, and looks there.
  assertEquals(volume.hostPath.path, options.socketDir);
});

Deno.test("daemon component: the container has no rights that it does not need", () => {
  const { securityContext } = container;
  assertEquals(securityContext.privileged, undefined);
  assertEquals(securityContext.allowPrivilegeEscalation, false);
  assertEquals(securityContext.capabilities, { drop: ["ALL"] });
  assertEquals(securityContext.readOnlyRootFilesystem, true);
  // Only root finds the socket, and must have made it.
  assertEquals(securityContext.runAsUser, 0);
});
