import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { DefinitionStore } from "../../../tests/_harness/definition_store.ts";
import { networksQuery } from "../../../tests/_harness/networks_query.ts";
import { DEFAULT_NETWORK, NETWORKS } from "./annotations.ts";
import { MissingNetworkError } from "./missing_network.ts";
import {
  type NetworksQuery,
  resolveConfiguredNetworks,
  resolveMaster,
  resolveNetworks,
} from "./networks.ts";

const STATIC = {
  delegates: [{ name: "m", type: "x" }, { name: "s", type: "y" }],
};

async function namesOf(query: NetworksQuery): Promise<string[]> {
  return (await resolveNetworks(query)).map(({ name }) => name);
}

Deno.test("resolveNetworks() has master, networks of every pod, the pod's own, and the chain, in this order", async () => {
  using folder = new ConfFolder({
    "10.conf": { name: "m", type: "x" },
    "vendor/1.conf": { type: "v" },
  });
  const client = new DefinitionStore({
    "kube-system/d": { type: "d" },
    "test/a": { type: "a" },
    "other/b": { type: "b" },
  });
  const config = {
    clusterNetwork: `${folder.path}/10.conf`,
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

Deno.test("resolveNetworks() replaces the master, and asks for nothing that is not used", async (t) => {
  const annotations = { [DEFAULT_NETWORK]: "n", [NETWORKS]: "a" };
  const rows: [object, string[]][] = [
    [STATIC, ["kube-system/n", "s", "test/a"]],
    [{ clusterNetwork: "c" }, ["kube-system/n", "test/a"]],
  ];
  for (const [config, expected] of rows) {
    await t.step(JSON.stringify(config), async () => {
      const client = new DefinitionStore({
        "kube-system/n": { type: "n" },
        "kube-system/c": { type: "c" },
        "test/a": { type: "a" },
        "test/unused": { type: "u" },
      });
      const query = networksQuery(config, { client, annotations });
      assertEquals(await namesOf(query), expected);
      assertEquals(client.requests, ["kube-system/n", "test/a"]);
    });
  }
});

Deno.test("resolveNetworks() does without annotations if there is no Kubernetes", async () => {
  const annotations = { [NETWORKS]: "a/b/c", [DEFAULT_NETWORK]: "" };
  assertEquals(await namesOf(networksQuery(STATIC, { annotations })), [
    "m",
    "s",
  ]);
});

Deno.test("resolveNetworks() asks for nothing if there is nothing to ask for", async () => {
  const client = new DefinitionStore();
  const query = networksQuery(STATIC, { client, annotations: { other: "x" } });
  assertEquals([await namesOf(query), client.requests], [["m", "s"], []]);
});

Deno.test("resolveNetworks() asks for all definitions at the same time", async () => {
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

Deno.test("resolveNetworks() takes devices in the order of attachment, all of one source", async () => {
  const client = new DefinitionStore();
  for (const key of ["kube-system/n", "kube-system/d", "test/a", "test/b"]) {
    client.put(key, { type: "sriov" }, "intel.com/sriov");
  }
  let count = 0;
  const query = networksQuery(
    { clusterNetwork: "c", defaultNetworks: ["d"] },
    {
      client,
      annotations: { [DEFAULT_NETWORK]: "n", [NETWORKS]: "b,a" },
      takeDevice: () => Promise.resolve(`device${count++}`),
    },
  );
  const delegates = await resolveNetworks(query);
  assertEquals(
    delegates.map(({ name, deviceId }) => `${name} ${deviceId}`),
    [
      "kube-system/n device0",
      "kube-system/d device1",
      "test/b device2",
      "test/a device3",
    ],
  );
});

Deno.test("resolveNetworks() fails for the first network that is missing", async () => {
  const client = new DefinitionStore({ "test/a": { type: "a" } });
  const annotations = { [NETWORKS]: "a,z,b" };
  const error = await assertRejects(
    () => resolveNetworks(networksQuery(STATIC, { client, annotations })),
    MissingNetworkError,
  );
  assertEquals(
    error.eventMessage,
    'cannot find a network-attachment-definition (z) in namespace (test): network-attachment-definitions.k8s.cni.cncf.io "z" not found',
  );
});

Deno.test("resolveNetworks() asks for nothing if the pod may not have what it asks for", async () => {
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

Deno.test("resolveNetworks() passes on that devices cannot be found out", async () => {
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

Deno.test("resolveConfiguredNetworks() and resolveMaster() leave annotations alone", async () => {
  const client = new DefinitionStore({
    "kube-system/c": { type: "c" },
    "kube-system/d": { type: "d" },
  });
  const query = networksQuery(
    { clusterNetwork: "c", defaultNetworks: ["d"] },
    { client, annotations: { [NETWORKS]: "a", [DEFAULT_NETWORK]: "" } },
  );
  const configured = await resolveConfiguredNetworks(query);
  assertEquals(configured.map(({ name }) => name), [
    "kube-system/c",
    "kube-system/d",
  ]);
  client.requests.length = 0;
  const { name } = await resolveMaster(query);
  assertEquals([name, client.requests], ["kube-system/c", ["kube-system/c"]]);
});
