/**
 * deploy/chart: that it has the objects of the kustomizations, does what its
 * values say, and leaves nodes as they were.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { load, loadAll } from "js-yaml";
import project from "../deno.json" with { type: "json" };
import {
  CHART,
  helm,
  isCurrent,
  kustomize,
  type Manifest,
  needsKubectl,
  render,
  template,
  UNKNOWN,
} from "./_harness/helm.ts";
import { DEFAULT_NAMESPACE } from "../ipam/whereabouts/session.ts";
import { eachRow, testRows } from "./_harness/table.ts";

const ALL = { plugins: { enabled: true }, multus: { enabled: true } };
const OFF = { plugins: { enabled: false }, daemon: { enabled: false } };

const read = (file: string): Manifest[] =>
  loadAll(Deno.readTextFileSync(`${CHART}/../${file}`)) as Manifest[];

/** Values, and the kustomization that has the same objects. */
const SAME: readonly [name: string, values: object, kustomization: object][] = [
  ["the defaults", {}, { resources: ["../plugins"] }],
  ["the daemon without the plugins", { plugins: { enabled: false } }, {
    resources: ["../daemon"],
  }],
  ["the plugins without the daemon", { daemon: { enabled: false } }, {
    resources: ["../plugins/daemonset.yaml"],
  }],
  ["the daemon of dhcp", { daemon: { dhcp: true } }, {
    resources: ["../plugins"],
    components: ["../dhcp"],
  }],
  ["dhcp without the plugins", {
    plugins: { enabled: false },
    daemon: { dhcp: true },
  }, { resources: ["../daemon"], components: ["../dhcp"] }],
  ["multus", { ...OFF, multus: { enabled: true } }, {
    resources: ["../multus"],
  }],
  ["multus with the daemon", {
    ...OFF,
    multus: { enabled: true, daemon: { enabled: true } },
  }, { resources: ["../multus"], components: ["../multus/daemon"] }],
  ["whereabouts", { ...OFF, whereabouts: { enabled: true } }, {
    resources: ["../whereabouts"],
  }],
  ["everything", {
    multus: { enabled: true },
    whereabouts: { enabled: true },
  }, { resources: ["../plugins", "../multus", "../whereabouts"] }],
];

Deno.test({
  name: "chart: its objects equal the objects of the kustomizations" +
    needsKubectl.suffix,
  ignore: needsKubectl.ignore,
  fn: async (t) =>
    await eachRow(t, SAME, ([, values, kustomization]) => {
      const { objects } = render(values);
      assertEquals(objects.map(withoutKeep), kustomize(kustomization));
    }),
});

/** Helm keeps the kinds when it removes the release: their objects would go with them. */
function withoutKeep(object: Manifest): Manifest {
  if (object.kind !== "CustomResourceDefinition") return object;
  const { annotations, ...metadata } = object.metadata;
  assertEquals(annotations, { "helm.sh/resource-policy": "keep" });
  return { ...object, metadata };
}

Deno.test("chart: helm lint succeeds", () => {
  const { code, stdout } = helm(["lint", "--strict", "chart"]);
  assertEquals(code, 0, stdout);
  assertStringIncludes(stdout, "0 chart(s) failed");
});

Deno.test("chart: its version is the project's", () => {
  const { version, appVersion } = load(
    Deno.readTextFileSync(`${CHART}/Chart.yaml`),
  ) as Manifest;
  assertEquals([version, appVersion], [project.version, project.version]);
});

/** Finds an object of a kind. */
function find(
  objects: readonly Manifest[],
  kind: string,
  name: string,
): Manifest {
  const found = objects.find((object) =>
    object.kind === kind && object.metadata.name === name
  );
  assert(found !== undefined, `${kind} ${name}`);
  return found;
}

const DIGEST = `sha256:${"0".repeat(64)}`;

/** Values, and what the pods of a DaemonSet then have. */
const VALUES: readonly [
  values: object,
  name: string,
  what: (pod: Manifest) => unknown,
  expected: unknown,
][] = [
  [
    { plugins: { only: ["ptp", "host-local"] } },
    "cni-plugins",
    (pod) => pod.initContainers[0].args.at(-1),
    "--only=ptp,host-local",
  ],
  [
    { plugins: { directory: "/b" }, multus: { configDirectory: "/c" } },
    "cni-plugins",
    listPaths,
    ["/b", "/c", "/var/lib/cni"],
  ],
  [
    { plugins: { podSpec: { tolerations: [], nodeSelector: { a: "b" } } } },
    "cni-plugins",
    (pod) => [pod.tolerations, pod.nodeSelector],
    [[], { "kubernetes.io/os": "linux", a: "b" }],
  ],
  [
    {
      plugins: { enabled: false },
      daemon: { podSpec: { nodeSelector: { a: "b" } } },
    },
    "cni-daemon",
    (pod) => pod.nodeSelector.a,
    "b",
  ],
  [
    { image: { registry: "r.example/cni", tag: "v2" } },
    "cni-plugins",
    listImages,
    [
      "r.example/cni/cni-plugins:v2",
      "r.example/cni/cni-plugins:v2",
      "registry.k8s.io/pause:3.10",
    ],
  ],
  [
    { image: { digests: { "cni-plugins": DIGEST } }, pause: "pause:1" },
    "cni-plugins",
    listImages,
    [`cni-plugins@${DIGEST}`, `cni-plugins@${DIGEST}`, "pause:1"],
  ],
  [{ daemon: { port: 1234 } }, "cni-plugins", listPorts, [
    "--metrics-address=127.0.0.1:1234",
    1234,
    1234,
  ]],
  [{ daemon: { heal: false } }, "cni-plugins", lastArgument, "--no-heal"],
  [{ daemon: { repair: true } }, "cni-plugins", lastArgument, "--repair"],
  [
    { daemon: { podMetrics: true } },
    "cni-plugins",
    lastArgument,
    "--pod-metrics",
  ],
  [
    { multus: { enabled: true, daemon: { enabled: true, heal: false } } },
    "kube-multus-ds",
    lastArgument,
    "--no-heal",
  ],
  [
    { multus: { enabled: true, daemon: { enabled: true, port: 99 } } },
    "kube-multus-ds",
    listPorts,
    ["--metrics-address=127.0.0.1:99", 99, 99],
  ],
  [
    { multus: { enabled: true, args: ["--plugins=bridge"] } },
    "kube-multus-ds",
    listAddedArguments,
    [["--plugins=bridge"], ["--plugins=bridge"]],
  ],
  [
    { multus: { enabled: true, configDirectory: "/c", directory: "/b" } },
    "kube-multus-ds",
    listPaths,
    ["/c", "/b"],
  ],
  [
    { plugins: { directory: "/b" }, multus: { configDirectory: "/c" } },
    "cni-plugins",
    listVariables,
    [["CNI_PATH", "/b"], ["NETCONFPATH", "/c"]],
  ],
  [
    { plugins: { enabled: false, directory: "/b" } },
    "cni-daemon",
    listVariables,
    [["CNI_PATH", "/b"]],
  ],
  [
    {
      multus: {
        enabled: true,
        directory: "/b",
        configDirectory: "/c",
        daemon: { enabled: true },
      },
    },
    "kube-multus-ds",
    listVariables,
    [["MULTUS_NODE_NAME", undefined], ["CNI_PATH", "/b"], [
      "NETCONFPATH",
      "/c",
    ]],
  ],
  // The kubeconfig's path on the node. A flag of the user's comes later, and wins.
  [
    {
      multus: {
        enabled: true,
        configDirectory: "/c/",
        args: ["--plugins=bridge"],
      },
    },
    "kube-multus-ds",
    listAddedArguments,
    Array(2).fill([
      "--multus-kubeconfig-file-host=/c/multus.d/multus.kubeconfig",
      "--plugins=bridge",
    ]),
  ],
];

function listPaths({ volumes }: Manifest): string[] {
  return volumes.map(({ hostPath }: Manifest) => hostPath.path);
}

/** The arguments of multus' containers that daemonset.yaml does not have. */
function listAddedArguments(pod: Manifest): string[][] {
  const [{ spec: { template } }] = read("multus/daemonset.yaml");
  return ["initContainers", "containers"].map((key) =>
    pod[key][0].args.slice(template.spec[key][0].args.length)
  );
}

function listImages({ initContainers, containers }: Manifest): string[] {
  return [...initContainers, ...containers].map(({ image }) => image);
}

/** The environment of the daemon. */
function listVariables({ containers: [daemon] }: Manifest): unknown[] {
  return daemon.env.map(({ name, value }: Manifest) => [name, value]);
}

function lastArgument({ containers: [daemon] }: Manifest): string {
  return daemon.args.at(-1);
}

function listPorts({ containers: [daemon] }: Manifest): unknown[] {
  return [
    daemon.args.find((arg: string) => arg.startsWith("--metrics-address")),
    daemon.readinessProbe.httpGet.port,
    daemon.livenessProbe.httpGet.port,
  ];
}

testRows(
  "chart: values change the pods",
  VALUES,
  ([values, name, what, expected]) => {
    const { objects } = render(values);
    const { spec } = find(objects, "DaemonSet", name);
    assertEquals(what(spec.template.spec), expected);
  },
  ([values]) => JSON.stringify(values),
);

Deno.test("chart: all objects are in the release's namespace, except permissions on the pools", () => {
  const values = { ...ALL, whereabouts: { enabled: true, asMultus: true } };
  const { objects, hooks } = render(values, "--namespace=networks");
  assert(hooks.length > 0);
  const { objects: whereabouts } = render(
    { ...OFF, whereabouts: { enabled: true } },
    "--namespace=networks",
  );
  const roles = whereabouts
    .filter(({ kind }) => /^Role(Binding)?$/.test(kind))
    .map(({ metadata: { name } }) => name);
  assertEquals(roles.length, 4);
  for (const { kind, metadata, subjects = [] } of [...objects, ...hooks]) {
    // The pools are where the plugin and the CronJob look for them.
    const isOfPools = /^Role(Binding)?$/.test(kind) &&
      roles.includes(metadata.name);
    const expected = isOfPools ? DEFAULT_NAMESPACE : "networks";
    assertEquals(metadata.namespace ?? expected, expected, metadata.name);
    for (const { namespace } of subjects) {
      assertEquals(namespace, "networks");
    }
  }
  const { spec } = find(objects, "CronJob", "cni-cluster-gc");
  const [{ args, env }] = spec.jobTemplate.spec.template.spec.containers;
  assertEquals(env, undefined);
  assert(!args.includes("--namespace"));
  for (
    const [kind, name] of [
      ["RoleBinding", "cni-whereabouts"],
      ["ClusterRoleBinding", "cni-whereabouts-claims"],
    ] as const
  ) {
    const binding = find(objects, kind, name);
    assertEquals(
      binding.subjects.map(({ name }: Manifest) => name),
      ["whereabouts", "multus"],
    );
  }
});

/** Values that are refused, most of them by the schema, and what the error names. */
const REFUSED: readonly [values: object, place: string][] = [
  [{ plugin: {} }, "'plugin'"],
  [{ plugins: { only: "ptp" } }, "/plugins/only"],
  [{ plugins: { directory: "opt/cni/bin" } }, "/plugins/directory"],
  [{ plugins: { podSpec: { containers: [] } } }, "/plugins/podSpec/containers"],
  [{ daemon: { port: 0 } }, "/daemon/port"],
  [{ image: { digests: { multus: "sha256:1" } } }, "/image/digests/multus"],
  [{ cleanup: { timeout: "5" } }, "/cleanup/timeout"],
  [{ whereabouts: { schedule: "hourly" } }, "/whereabouts/schedule"],
  // The pods are those of the plugins.
  [{ daemon: { podSpec: { tolerations: [] } } }, "daemon.podSpec: "],
  [{ daemon: { enabled: false, dhcp: true } }, "daemon.dhcp: "],
];

testRows(
  "chart: invalid values are refused",
  REFUSED,
  ([values, place]) => {
    const { code, stderr } = template(values);
    assertEquals(code, 1);
    assertStringIncludes(stderr, place);
  },
  ([, place]) => place,
);

Deno.test("chart: helm uninstall runs uninstall.yaml on every node, and waits", () => {
  const { hooks } = render(ALL);
  const inOrder = hooks.toSorted((a, b) => weightOf(a) - weightOf(b));
  for (const [directory, app] of [["plugins", "cni-plugins"], ["multus"]]) {
    const [uninstall] = read(`${directory}/uninstall.yaml`);
    const { name } = uninstall.metadata;
    const own = inOrder.filter(({ metadata }) =>
      metadata.name.startsWith(`${directory}-`) || metadata.name === name
    );
    assertEquals(own.map(({ kind }) => kind), [
      ...["Role", "RoleBinding", "ServiceAccount"],
      ...["Job", "DaemonSet", "Job", "Job"],
    ]);
    for (const { kind, metadata: { annotations } } of own) {
      assertEquals(annotations["helm.sh/hook"], "post-delete");
      // After a failure, the DaemonSet remains: only the last job deletes it.
      assertEquals(
        annotations["helm.sh/hook-delete-policy"],
        kind === "DaemonSet"
          ? "before-hook-creation"
          : "before-hook-creation,hook-succeeded",
      );
    }
    const { annotations: _, ...metadata } = own[4].metadata;
    assertEquals({ ...own[4], metadata }, uninstall);
    assertEquals(argsOf(own[3]).slice(0, 4), [
      ...["wait", "pods", "--for=delete"],
      `--selector=app=${app ?? directory}`,
    ]);
    const rollout = ["rollout", "status", `daemonset/${name}`];
    assertEquals(argsOf(own[5]).slice(0, 3), rollout);
    const deletion = ["delete", "--ignore-not-found", `daemonset/${name}`];
    assertEquals(argsOf(own[6]).slice(0, 3), deletion);
    const { rules } = own[0];
    assertEquals(rules.at(-1), {
      apiGroups: ["apps"],
      resources: ["daemonsets"],
      resourceNames: [name],
      verbs: ["delete"],
    });
  }
  assertEquals(render(ALL, "--set=cleanup.enabled=false").hooks, []);
});

Deno.test("chart: every pod has the values of podSpec, except what uninstall jobs override", () => {
  const podSpec = {
    imagePullSecrets: [{ name: "key" }],
    nodeSelector: { a: "b" },
    tolerations: [{ key: "c", operator: "Exists" }],
    hostNetwork: false,
    automountServiceAccountToken: false,
    serviceAccountName: "other",
  };
  const { objects, hooks } = render({
    plugins: { podSpec },
    multus: { enabled: true, podSpec },
    whereabouts: { enabled: true, podSpec },
  });
  const kinds = [...objects, ...hooks].flatMap(({ kind, metadata, spec }) => {
    const { template } = spec?.jobTemplate?.spec ?? spec ?? {};
    if (template === undefined) return [];
    const os = { "kubernetes.io/os": "linux" };
    const nodeSelector = {
      ...kind !== "CronJob" && os,
      ...kind !== "Job" && { a: "b" },
    };
    const needs = kind !== "Job" ? {} : {
      tolerations: [{ operator: "Exists" }],
      hostNetwork: true,
      automountServiceAccountToken: true,
      serviceAccountName: metadata.name.replace(/-\d$/, ""),
    };
    const expected = { ...podSpec, nodeSelector, ...needs };
    const actual = Object.keys(expected).map((key) => [
      key,
      template.spec[key],
    ]);
    assertEquals(Object.fromEntries(actual), expected, metadata.name);
    return [kind];
  });
  assertEquals(kinds.toSorted(), [
    "CronJob",
    ...Array(4).fill("DaemonSet"),
    ...Array(6).fill("Job"),
  ]);
});

// The last one: the others may record.
Deno.test("chart: the recorded output of Helm is current", () => {
  assert(isCurrent(), UNKNOWN);
});

function weightOf({ metadata: { annotations } }: Manifest): number {
  return Number(annotations["helm.sh/hook-weight"]);
}

function argsOf({ spec }: Manifest): string[] {
  return spec.template.spec.containers[0].args;
}
