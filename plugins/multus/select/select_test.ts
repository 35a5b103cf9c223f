import { assert, assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import { DefinitionStore, networksQuery } from "../testing/definitions.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { NetworkError } from "../model/network_error.ts";
import {
  DEFAULT_NETWORK,
  DEFAULT_NETWORKS,
  NETWORKS,
  type NetworksQuery,
  resolveMaster,
  resolveNetworks,
} from "./select.ts";

const STATIC = {
  delegates: [{ name: "m", type: "x" }, { name: "s", type: "y" }],
};

async function namesOf(query: NetworksQuery): Promise<string[]> {
  return (await resolveNetworks(query)).map(({ name }) => name);
}

Deno.test("resolveNetworks() returns the master, default networks, the pod's networks and the chain, in this order", async () => {
  using directory = new ConfDirectory({
    "10.conf": { name: "m", type: "x" },
    "vendor/1.conf": { type: "v" },
  });
  const client = new DefinitionStore({
    "kube-system/d": { type: "d" },
    "test/a": { type: "a" },
    "other/b": { type: "b" },
  });
  const config = {
    clusterNetwork: `${directory.path}/10.conf`,
    defaultNetworks: ["d"],
    auxiliaryCNIChainName: "vendor",
  };
  const annotations = { [NETWORKS]: "other/b,a,a" };
  assertEquals(await namesOf(networksQuery(config, { client, annotations })), [
    "m",
    "kube-system/d",
    "other/b",
    "test/a",
    "test/a",
    "vendor",
  ]);
  assertEquals(client.requests, ["kube-system/d", "other/b", "test/a"]);
});

Deno.test("resolveNetworks() lets other calls run between definitions at the limits", async () => {
  const names = Array.from({ length: 8 }, (_, index) => `n${index}`);
  const plugins = Array(64).fill({ type: "x", text: "x".repeat(900) });
  const client = new DefinitionStore(
    Object.fromEntries(names.map((name) => [`test/${name}`, { plugins }])),
  );
  const annotations = { [NETWORKS]: names.join() };
  let turns = 0, isOver = false;
  const runOthers = async (): Promise<void> => {
    for (; !isOver; turns++) await new Promise((run) => setTimeout(run));
  };
  // Each step takes a second, for code that reads the time.
  const { now } = performance;
  let ms = now.call(performance);
  performance.now = (): number => ms += 1000;
  try {
    const others = runOthers();
    const query = networksQuery(STATIC, { client, annotations });
    const { length } = await resolveNetworks(query);
    isOver = true;
    await others;
    assertEquals(length, 2 + names.length);
    assert(turns >= names.length, `${turns} turns of other calls`);
  } finally {
    performance.now = now;
  }
});

Deno.test("resolveNetworks() replaces the master, and fetches only what it uses", async (t) => {
  const annotations = { [DEFAULT_NETWORK]: "n", [NETWORKS]: "a" };
  const rows: [object, string[]][] = [
    [STATIC, ["kube-system/n", "s", "test/a"]],
    [{ clusterNetwork: "c" }, ["kube-system/n", "test/a"]],
  ];
  await eachRow(t, rows, async ([config, expected]) => {
    const client = new DefinitionStore({
      "kube-system/n": { type: "n" },
      "kube-system/c": { type: "c" },
      "test/a": { type: "a" },
      "test/unused": { type: "u" },
    });
    const query = networksQuery(config, { client, annotations });
    assertEquals(await namesOf(query), expected);
    assertEquals(client.requests, ["kube-system/n", "test/a"]);
  }, ([config]) => JSON.stringify(config));
});

Deno.test("resolveNetworks() ignores annotations without Kubernetes", async () => {
  const annotations = { [NETWORKS]: "a/b/c", [DEFAULT_NETWORK]: "" };
  assertEquals(await namesOf(networksQuery(STATIC, { annotations })), [
    "m",
    "s",
  ]);
});

Deno.test("resolveNetworks() fetches nothing if no network is a definition", async () => {
  const client = new DefinitionStore();
  const query = networksQuery(STATIC, { client, annotations: { other: "x" } });
  assertEquals([await namesOf(query), client.requests], [["m", "s"], []]);
});

Deno.test("resolveNetworks() fetches all definitions concurrently", async () => {
  const client = new DefinitionStore({
    "kube-system/c": { type: "c" },
    "kube-system/d": { type: "d" },
    "test/a": { type: "a" },
    "test/b": { type: "b" },
  });
  const config = { clusterNetwork: "c", defaultNetworks: ["d"] };
  const annotations = { [NETWORKS]: "a,b" };
  await namesOf(networksQuery(config, { client, annotations }));
  assertEquals(client.peak, 4);
});

Deno.test("resolveNetworks() takes devices in the order of attachment", async () => {
  const client = new DefinitionStore();
  for (const key of ["kube-system/n", "kube-system/d", "test/a", "test/b"]) {
    client.put(key, { type: "sriov" }, "intel.com/sriov");
  }
  let count = 0;
  const query = networksQuery({ clusterNetwork: "c", defaultNetworks: ["d"] }, {
    client,
    annotations: { [DEFAULT_NETWORK]: "n", [NETWORKS]: "b,a" },
    takeDevice: () => Promise.resolve(`device${count++}`),
  });
  const delegates = await resolveNetworks(query);
  assertEquals(delegates.map(({ name, deviceId }) => `${name} ${deviceId}`), [
    "kube-system/n device0",
    "kube-system/d device1",
    "test/b device2",
    "test/a device3",
  ]);
});

Deno.test("resolveNetworks() fails for the first network that is missing", async () => {
  const client = new DefinitionStore({ "test/a": { type: "a" } });
  const annotations = { [NETWORKS]: "a,z,b" };
  const error = await assertRejects(
    () => resolveNetworks(networksQuery(STATIC, { client, annotations })),
    NetworkError,
  );
  assertEquals(
    error.event.message,
    'cannot find a network-attachment-definition (z) in namespace (test): network-attachment-definitions.k8s.cni.cncf.io "z" not found',
  );
});

Deno.test("resolveNetworks() fetches nothing if the pod may not use a network", async () => {
  const client = new DefinitionStore();
  const annotations = { [NETWORKS]: "a,other/b" };
  const config = { ...STATIC, namespaceIsolation: true };
  await assertRejects(
    () => resolveNetworks(networksQuery(config, { client, annotations })),
    CniError,
    "annotation violates permission",
  );
  assertEquals(client.requests, []);
});

Deno.test("resolveNetworks() reports that devices cannot be read", async () => {
  const client = new DefinitionStore();
  client.put("test/a", { type: "sriov" }, "intel.com/sriov");
  const query = networksQuery(STATIC, {
    client,
    annotations: { [NETWORKS]: "a" },
    takeDevice: () => Promise.reject(new CniError(11, "no kubelet")),
  });
  const error = await assertRejects(() => resolveNetworks(query), CniError);
  assertEquals([error.code, error.message], [
    11,
    "error loading k8s delegates k8s args: GetNetworkDelegates: " +
    "failed getting the delegate: no kubelet",
  ]);
});

Deno.test("resolveMaster() ignores annotations and default networks", async () => {
  const client = new DefinitionStore({ "kube-system/c": { type: "c" } });
  const query = networksQuery(
    { clusterNetwork: "c", defaultNetworks: ["d"] },
    { client, annotations: { [NETWORKS]: "a", [DEFAULT_NETWORK]: "" } },
  );
  const { name } = await resolveMaster(query);
  assertEquals([name, client.requests], ["kube-system/c", ["kube-system/c"]]);
});

/** Returns the names of the delegates. */
async function resolve(
  config: object,
  client?: DefinitionStore,
  podNamespace = "test",
): Promise<string[]> {
  return await namesOf(networksQuery(config, { client, podNamespace }));
}

const A = { name: "a", type: "type-a" }, B = { name: "b", type: "type-b" };

Deno.test("resolveNetworks() loads delegates of the configuration", async () => {
  const names = await resolve({ delegates: [A, B], defaultNetworks: ["c"] });
  assertEquals(names, ["a", "b"]);
});

Deno.test("resolveNetworks() refuses a configuration without valid networks", async (t) => {
  const none =
    "LoadNetConf: at least one delegate/clusterNetwork must be specified";
  const rows: [object, number, string][] = [
    [{}, 7, none],
    [{ delegates: [] }, 7, none],
    [{ defaultNetworks: ["a"] }, 7, none],
    [
      { delegates: [A, { name: "b" }] },
      7,
      "failed to load delegate 1 config: ",
    ],
    [{ delegates: [{ name: "b", plugins: [] }] }, 7, "no plugins in list"],
    [{ delegates: [{ type: "multus" }] }, 7, "multus would call itself"],
  ];
  await eachRow(t, rows, async ([config, code, message]) => {
    const error = await assertRejects(
      () => resolve(config),
      CniError,
      message,
    );
    assertEquals(error.code, code);
  }, ([config]) => JSON.stringify(config));
});

Deno.test("resolveNetworks() finds a clusterNetwork in each of its forms", async (t) => {
  using directory = new ConfDirectory({
    "00-multus.conf": { name: "m", type: "multus" },
    "10.conf": A,
    "20.conflist": { name: "b", plugins: [{ type: "x" }] },
  });
  const confDir = directory.path;
  const store = new DefinitionStore({ "kube-system/nad": A, "other/nad": B });
  const rows: [string, object, string[]][] = [
    ["definition", { clusterNetwork: "nad" }, ["kube-system/nad"]],
    ["definition in another namespace", {
      clusterNetwork: "nad",
      multusNamespace: "other",
    }, ["other/nad"]],
    ["CNI name", { clusterNetwork: "b", confDir }, ["b"]],
    ["directory", { clusterNetwork: confDir }, ["a"]],
    ["file", { clusterNetwork: `${confDir}/20.conflist` }, ["b"]],
    ["file as the Go daemon's container has it", {
      clusterNetwork: `/host${confDir}/20.conflist`,
      defaultNetworks: [`/host${confDir}`],
    }, ["b", "a"]],
    ["delegates too", { clusterNetwork: "nad", delegates: [B] }, [
      "kube-system/nad",
    ]],
    ["all at once", {
      clusterNetwork: `${confDir}/10.conf`,
      defaultNetworks: ["nad", "b", confDir],
      confDir,
    }, ["a", "kube-system/nad", "b", "a"]],
  ];
  await eachRow(t, rows, async ([, config, expected]) => {
    assertEquals(await resolve(config, store), expected);
  });
});

Deno.test("resolveNetworks() finds files without Kubernetes", async (t) => {
  using directory = new ConfDirectory({ "10.conf": A });
  const confDir = directory.path;
  for (const clusterNetwork of ["a", confDir, `${confDir}/10.conf`]) {
    await t.step(clusterNetwork, async () => {
      const config = { clusterNetwork, defaultNetworks: ["a"], confDir };
      assertEquals(await resolve(config), ["a", "a"]);
    });
  }
});

Deno.test("resolveNetworks() has no default networks for pods of system namespaces", async (t) => {
  using directory = new ConfDirectory({ "10.conf": A, "20.conf": B });
  const config = {
    clusterNetwork: "a",
    defaultNetworks: ["b"],
    confDir: directory.path,
  };
  const rows: [object, string, string[]][] = [
    [{}, "test", ["a", "b"]],
    [{}, "kube-system", ["a"]],
    [{}, "kube-system2", ["a", "b"]],
    [{ systemNamespaces: ["test"] }, "test", ["a"]],
    [{ systemNamespaces: ["test"] }, "kube-system", ["a", "b"]],
    [{ systemNamespaces: [] }, "kube-system", ["a", "b"]],
  ];
  await eachRow(t, rows, async ([more, namespace, expected]) => {
    const names = await resolve({ ...config, ...more }, undefined, namespace);
    assertEquals(names, expected);
  }, ([more, namespace]) => `${JSON.stringify(more)} ${namespace}`);
});

Deno.test("resolveNetworks() omits default networks for a pod that may decline them", async (t) => {
  using directory = new ConfDirectory({ "10.conf": A, "20.conf": B });
  const config = {
    clusterNetwork: "a",
    defaultNetworks: ["b"],
    confDir: directory.path,
  };
  const may = { defaultNetworksAreOptional: true };
  const rows: [object, string, string[]][] = [
    [may, "none", ["a"]],
    [may, "all", ["a", "b"]],
    [{}, "none", ["a", "b"]],
  ];
  await eachRow(t, rows, async ([more, value, expected]) => {
    const query = networksQuery({ ...config, ...more }, {
      annotations: { [DEFAULT_NETWORKS]: value },
      client: new DefinitionStore(),
    });
    const delegates = await resolveNetworks(query);
    assertEquals(delegates.map(({ name }) => name), expected);
  }, ([more, value]) => `${JSON.stringify(more)} ${value}`);
});

Deno.test("resolveNetworks() reports everything it tried", async (t) => {
  const FAILED =
    "failed to get clusterNetwork/defaultNetworks: GetDefaultNetworks: failed to get clusterNetwork a in namespace kube-system: ";
  const config = { clusterNetwork: "a", confDir: "/no/such/directory" };
  await t.step("without Kubernetes", async () => {
    const error = await assertRejects(() => resolve(config), CniError);
    assertEquals([error.code, error.message], [
      7,
      `${FAILED}No networks found in /no/such/directory`,
    ]);
  });
  const failures: [number, number][] = [[404, 7], [503, 11]];
  await eachRow(t, failures, async ([status, code]) => {
    const store = new DefinitionStore();
    store.fail("kube-system/a", new KubeError("why", { status }));
    const error = await assertRejects(
      () => resolve(config, store),
      NetworkError,
    );
    const event =
      "cannot find a network-attachment-definition (a) in namespace (kube-system): why";
    assertEquals([error.code, error.message, error.event.message], [
      code,
      `${FAILED}getKubernetesDelegate: ${event}; No networks found in /no/such/directory`,
      event,
    ]);
  });
});

Deno.test("resolveNetworks() uses a file if the API cannot be asked, but not instead of a malformed definition", async () => {
  using directory = new ConfDirectory({ "10.conf": A });
  const config = { clusterNetwork: "a", confDir: directory.path };
  const store = new DefinitionStore();
  store.fail("kube-system/a", new KubeError("why", { status: 0 }));
  assertEquals(await resolve(config, store), ["a"]);
  await assertRejects(
    () => resolve(config, new DefinitionStore({ "kube-system/a": "{" })),
    CniError,
    'Cannot read network-attachment-definition "kube-system/a"',
  );
});

Deno.test("resolveNetworks() refuses multus as a network", async (t) => {
  const own = { name: "m", type: "multus" };
  using directory = new ConfDirectory({ "10-m.conf": own });
  const client = new DefinitionStore({ "test/m": own, "kube-system/d": own });
  const confDir = directory.path;
  const rows: [object, object, string][] = [
    [{ delegates: [own] }, {}, "m"],
    [{ clusterNetwork: "m", confDir }, {}, "m"],
    [{ clusterNetwork: "m", confDir }, { client }, "m"],
    [{ clusterNetwork: `${confDir}/10-m.conf` }, {}, "m"],
    [{ clusterNetwork: "d" }, { client }, "kube-system/d"],
    [STATIC, { client, annotations: { [NETWORKS]: "m" } }, "test/m"],
    [
      STATIC,
      { client, annotations: { [DEFAULT_NETWORK]: "d" } },
      "kube-system/d",
    ],
  ];
  await eachRow(t, rows, async ([config, more, name]) => {
    const message = `network "${name}": multus would call itself`;
    const { code } = await assertRejects(
      () => namesOf(networksQuery(config, more)),
      CniError,
      message,
    );
    assertEquals(code, 7);
  }, ([config, more]) => JSON.stringify([config, Object.keys(more)]));
});
