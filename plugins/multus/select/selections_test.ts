import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { networksQuery } from "../testing/definitions.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import type { Selection } from "../model/delegate.ts";
import {
  DEFAULT_NETWORK,
  listSelections,
  NETWORKS,
  type SelectionQuery,
} from "./select.ts";

/** The kind of a selection, and where it is found. */
function describe(selection: Selection): string {
  switch (selection.kind) {
    case "written":
      return `written ${selection.document["name"]}`;
    case "path":
      return `path ${selection.path}`;
    case "auxiliary":
      return `auxiliary ${selection.name}`;
    default: {
      const { kind, network: { namespace, name } } = selection;
      return `${kind} ${namespace}/${name}`;
    }
  }
}

const CLUSTER = {
  clusterNetwork: "c",
  defaultNetworks: ["/x/y.conf", "d"],
  auxiliaryCNIChainName: "vendor",
};
const WRITTEN = {
  delegates: [{ name: "m", type: "x" }, { name: "s", type: "y" }],
  defaultNetworks: ["d"],
};
const ANNOTATIONS = { [NETWORKS]: "other/b,a", [DEFAULT_NETWORK]: "n" };

Deno.test("listSelections() returns the master, default networks, the pod's networks and the chain, in this order", async (t) => {
  const client = {};
  const rows: [string, object, Partial<SelectionQuery>, string[]][] = [
    ["names and paths", CLUSTER, { client }, [
      "named kube-system/c",
      "path /x/y.conf",
      "named kube-system/d",
      "auxiliary vendor",
    ]],
    ["annotations", CLUSTER, { client, annotations: ANNOTATIONS }, [
      "definition kube-system/n",
      "path /x/y.conf",
      "named kube-system/d",
      "definition other/b",
      "definition test/a",
      "auxiliary vendor",
    ]],
    ["annotations beside delegates", WRITTEN, {
      client,
      annotations: ANNOTATIONS,
    }, [
      "definition kube-system/n",
      "written s",
      "definition other/b",
      "definition test/a",
    ]],
    ["without Kubernetes", WRITTEN, { annotations: ANNOTATIONS }, [
      "written m",
      "written s",
    ]],
    ["a system namespace", CLUSTER, { client, podNamespace: "kube-system" }, [
      "named kube-system/c",
      "auxiliary vendor",
    ]],
    [
      "another namespace for definitions",
      { ...CLUSTER, multusNamespace: "infra" },
      { client, annotations: { [DEFAULT_NETWORK]: "n" } },
      [
        "definition infra/n",
        "path /x/y.conf",
        "named infra/d",
        "auxiliary vendor",
      ],
    ],
  ];
  await eachRow(t, rows, async ([, config, more, expected]) => {
    const { client, ...rest } = more;
    const query = { ...networksQuery(config, rest), client };
    const selections = await listSelections(query);
    assertEquals(selections.map(describe), expected);
  });
});

Deno.test("listSelections() needs a master in the configuration, whatever the pod chooses", async () => {
  const query = {
    ...networksQuery({ defaultNetworks: ["d"] }),
    client: {},
    annotations: ANNOTATIONS,
  };
  const error = await assertRejects(() => listSelections(query), CniError);
  assertEquals([error.code, error.message], [
    7,
    "error loading netconf: LoadNetConf: at least one delegate/clusterNetwork must be specified",
  ]);
});
