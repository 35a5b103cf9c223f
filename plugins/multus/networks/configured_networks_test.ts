import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { DefinitionStore } from "../../../tests/_harness/definition_store.ts";
import { networksQuery } from "../../../tests/_harness/networks_query.ts";
import { AttachmentDefinitions } from "./attachment_definitions.ts";
import {
  listConfiguredKeys,
  resolveConfigured,
} from "./configured_networks.ts";
import { loadDelegate } from "./delegate.ts";
import { MissingNetworkError } from "./missing_network.ts";

/** Resolves; the names of the delegates. */
async function resolve(
  config: object,
  store?: DefinitionStore,
  podNamespace = "test",
): Promise<string[]> {
  using definitions = store && new AttachmentDefinitions(store);
  const query = networksQuery(config, { podNamespace });
  const delegates = await resolveConfigured(query, definitions);
  return delegates.map(({ name }) => name);
}

const A = { name: "a", type: "type-a" }, B = { name: "b", type: "type-b" };

Deno.test("resolveConfigured() loads what is written in the configuration", async () => {
  const names = await resolve({ delegates: [A, B], defaultNetworks: ["c"] });
  assertEquals(names, ["a", "b"]);
});

Deno.test("resolveConfigured() refuses a configuration that is none", async (t) => {
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
  for (const [config, code, message] of rows) {
    await t.step(JSON.stringify(config), async () => {
      const error = await assertRejects(
        () => resolve(config),
        CniError,
        message,
      );
      assertEquals(error.code, code);
    });
  }
});

Deno.test("resolveConfigured() finds a clusterNetwork in each of its forms", async (t) => {
  using folder = new ConfFolder({
    "00-multus.conf": { name: "m", type: "multus" },
    "10.conf": A,
    "20.conflist": { name: "b", plugins: [{ type: "x" }] },
  });
  const confDir = folder.path;
  const store = new DefinitionStore({ "kube-system/nad": A, "other/nad": B });
  const rows: [string, object, string[]][] = [
    ["definition", { clusterNetwork: "nad" }, ["kube-system/nad"]],
    ["definition in another namespace", {
      clusterNetwork: "nad",
      multusNamespace: "other",
    }, ["other/nad"]],
    ["CNI name", { clusterNetwork: "b", confDir }, ["b"]],
    ["folder", { clusterNetwork: confDir }, ["a"]],
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
  for (const [name, config, expected] of rows) {
    await t.step(name, async () => {
      assertEquals(await resolve(config, store), expected);
    });
  }
});

Deno.test("resolveConfigured() finds files without Kubernetes", async (t) => {
  using folder = new ConfFolder({ "10.conf": A });
  const confDir = folder.path;
  for (const clusterNetwork of ["a", confDir, `${confDir}/10.conf`]) {
    await t.step(clusterNetwork, async () => {
      const config = { clusterNetwork, defaultNetworks: ["a"], confDir };
      assertEquals(await resolve(config), ["a", "a"]);
    });
  }
});

Deno.test("resolveConfigured() spares pods of the system what others have", async (t) => {
  using folder = new ConfFolder({ "10.conf": A, "20.conf": B });
  const config = {
    clusterNetwork: "a",
    defaultNetworks: ["b"],
    confDir: folder.path,
  };
  const rows: [object, string, string[]][] = [
    [{}, "test", ["a", "b"]],
    [{}, "kube-system", ["a"]],
    [{}, "kube-system2", ["a", "b"]],
    [{ systemNamespaces: ["test"] }, "test", ["a"]],
    [{ systemNamespaces: ["test"] }, "kube-system", ["a", "b"]],
    [{ systemNamespaces: [] }, "kube-system", ["a", "b"]],
  ];
  for (const [more, namespace, expected] of rows) {
    await t.step(`${JSON.stringify(more)} ${namespace}`, async () => {
      const names = await resolve({ ...config, ...more }, undefined, namespace);
      assertEquals(names, expected);
    });
  }
});

Deno.test("resolveConfigured() says all that it tried", async (t) => {
  const FAILED =
    "GetDefaultNetworks: failed to get clusterNetwork a in namespace kube-system: ";
  const config = { clusterNetwork: "a", confDir: "/no/such/folder" };
  await t.step("without Kubernetes", async () => {
    const error = await assertRejects(() => resolve(config), CniError);
    assertEquals([error.code, error.message], [
      7,
      `${FAILED}No networks found in /no/such/folder`,
    ]);
  });
  const failures: [number, number][] = [[404, 7], [503, 11]];
  for (const [status, code] of failures) {
    await t.step(`${status}`, async () => {
      const store = new DefinitionStore();
      store.fail("kube-system/a", new KubeError("why", { status }));
      const error = await assertRejects(
        () => resolve(config, store),
        MissingNetworkError,
      );
      const event =
        "cannot find a network-attachment-definition (a) in namespace (kube-system): why";
      assertEquals([error.code, error.message, error.eventMessage], [
        code,
        `${FAILED}getKubernetesDelegate: ${event}; No networks found in /no/such/folder`,
        event,
      ]);
    });
  }
});

Deno.test("resolveConfigured() takes a file if the API cannot be asked, and not one in place of a malformed definition", async () => {
  using folder = new ConfFolder({ "10.conf": A });
  const config = { clusterNetwork: "a", confDir: folder.path };
  const store = new DefinitionStore();
  store.fail("kube-system/a", new KubeError("why", { status: 0 }));
  assertEquals(await resolve(config, store), ["a"]);
  await assertRejects(
    () => resolve(config, new DefinitionStore({ "kube-system/a": "{" })),
    CniError,
    'Cannot read network-attachment-definition "kube-system/a"',
  );
});

Deno.test("resolveConfigured() refuses multus as a network", async (t) => {
  const own = { name: "m", type: "multus" };
  using folder = new ConfFolder({ "10-m.conf": own });
  for (const network of ["m", `${folder.path}/10-m.conf`]) {
    await t.step(network, async () => {
      const config = { clusterNetwork: network, confDir: folder.path };
      const message = 'network "m": multus would call itself';
      await assertRejects(() => resolve(config), CniError, message);
    });
  }
});

Deno.test("resolveConfigured() does not look for a master that is replaced", async (t) => {
  const bytes = new TextEncoder().encode(JSON.stringify(A));
  const rows: [object, string[]][] = [
    [{ clusterNetwork: "/no/such/file" }, ["chosen"]],
    [{ delegates: [{ name: "x", type: "y" }, B] }, ["chosen", "b"]],
  ];
  for (const [config, expected] of rows) {
    await t.step(JSON.stringify(config), async () => {
      const delegates = await resolveConfigured(
        networksQuery(config),
        undefined,
        loadDelegate(bytes, { name: "chosen" }),
      );
      assertEquals(delegates.map(({ name }) => name), expected);
    });
  }
});

Deno.test("listConfiguredKeys() lists what may be a definition", () => {
  const config = { clusterNetwork: "a", defaultNetworks: ["/x/y.conf", "b"] };
  const list = (isReplaced: boolean, podNamespace = "test"): string[] =>
    listConfiguredKeys(networksQuery(config, { podNamespace }), isReplaced)
      .map(({ namespace, name }) => `${namespace}/${name}`);
  assertEquals(list(false), ["kube-system/a", "kube-system/b"]);
  assertEquals(list(true), ["kube-system/b"]);
  assertEquals(list(false, "kube-system"), ["kube-system/a"]);
  assertEquals(listConfiguredKeys(networksQuery({ delegates: [A] })), []);
});
