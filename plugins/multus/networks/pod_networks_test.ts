import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { networksQuery } from "../../../tests/_harness/networks_query.ts";
import { DEFAULT_NETWORK, NETWORKS } from "./annotations.ts";
import { type SelectedNetworks, selectNetworks } from "./pod_networks.ts";

function select(
  annotations: Record<string, string>,
  config: object = {},
): SelectedNetworks {
  return selectNetworks(networksQuery(config, { annotations }));
}

Deno.test("selectNetworks() has each annotation's own namespace by default", () => {
  const { master, others } = select(
    { [NETWORKS]: "a,other/b", [DEFAULT_NETWORK]: "c" },
    { multusNamespace: "infra" },
  );
  assertEquals(master?.namespace, "infra");
  assertEquals(others.map(({ namespace }) => namespace), ["test", "other"]);
});

Deno.test("selectNetworks() selects nothing where nothing is asked for", () => {
  assertEquals(select({}), { others: [] });
  assertEquals(select({ [NETWORKS]: "" }), { others: [] });
});

Deno.test("selectNetworks() keeps pods to their namespace if they are isolated", async (t) => {
  const isolated = { namespaceIsolation: true };
  const rows: [string, string, object, boolean][] = [
    [NETWORKS, "a,test/b", isolated, true],
    [NETWORKS, "default/a", isolated, true],
    [NETWORKS, "other/a", isolated, false],
    [NETWORKS, "kube-system/a", isolated, false],
    [NETWORKS, "other/a", {}, true],
    [NETWORKS, '[{"name":"a","namespace":"other"}]', isolated, false],
    [NETWORKS, "other/a", { ...isolated, globalNamespaces: "x, other" }, true],
    [NETWORKS, "default/a", { ...isolated, globalNamespaces: "x" }, false],
    [DEFAULT_NETWORK, "a", isolated, true],
    [DEFAULT_NETWORK, "kube-system/a", isolated, true],
    [DEFAULT_NETWORK, "test/a", isolated, true],
    [DEFAULT_NETWORK, "default/a", isolated, true],
    [DEFAULT_NETWORK, "other/a", isolated, false],
    [DEFAULT_NETWORK, "other/a", {}, true],
  ];
  for (const [annotation, text, config, isPermitted] of rows) {
    await t.step(`${annotation} ${text} ${JSON.stringify(config)}`, () => {
      const run = (): unknown => select({ [annotation]: text }, config);
      if (isPermitted) return void run();
      const message = "namespace isolation enabled, annotation violates";
      assertEquals(assertThrows(run, CniError, message).code, 7);
    });
  }
});
