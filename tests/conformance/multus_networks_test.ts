/**
 * Which networks multus finds for a pod: the rows of the list that are about
 * these, by their numbers.
 *
 * Source: multus-cni pkg/k8sclient/k8sclient_test.go;
 * network-attachment-definition-client pkg/utils/net-attach-def_test.go.
 */

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { type Delegate, isList } from "../../plugins/multus/model/delegate.ts";
import { parseNetworks } from "../../plugins/multus/select/annotations.ts";
import {
  DEFAULT_NETWORK,
  NETWORKS,
  type NetworksQuery,
  resolveMaster,
  resolveNetworks,
} from "../../plugins/multus/select/select.ts";
import { ConfDirectory, type ConfFiles } from "../_harness/conf_directory.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import {
  type DefinitionConfig,
  DefinitionStore,
  networksQuery,
} from "../../plugins/multus/testing/definitions.ts";
import { expand } from "./rows.ts";

const STATIC = { delegates: [{ name: "weave1", type: "weave-net" }] };
const NET1 = { name: "net1", type: "mynet", cniVersion: "0.2.0" };
const NET2 = { name: "net2", type: "mynet2", cniVersion: "0.2.0" };
const NET3 = { name: "net3", type: "mynet3", cniVersion: "0.2.0" };

type Definitions = Readonly<Record<string, DefinitionConfig>>;

/** A pod with annotations, and the definitions that there are. */
function podQuery(
  annotations: Readonly<Record<string, string>>,
  definitions: Definitions,
  { config = STATIC, ...more }: {
    readonly config?: object;
    readonly podNamespace?: string;
    readonly takeDevice?: NetworksQuery["takeDevice"];
  } = {},
): NetworksQuery {
  const client = new DefinitionStore(definitions);
  return networksQuery(config, { client, annotations, ...more });
}

/** CNI name and type, or types. */
function describe({ conf }: Delegate): string {
  const plugins = isList(conf) ? conf.plugins : [conf.plugin];
  return `${conf.name} ${plugins.map(({ type }) => type).join("+")}`;
}

async function resolve(query: NetworksQuery): Promise<string[]> {
  return (await resolveNetworks(query)).map(describe);
}

/** Builds a row about the networks of a pod. */
function finds(query: NetworksQuery, expected: readonly string[]): Row {
  return async () => assertEquals(await resolve(query), [...expected]);
}

/** What the reference says of networks that the configuration has, or the pod asks for. */
const CONTEXT =
  /^(failed to get clusterNetwork\/defaultNetworks|error loading netconf|error loading k8s delegates k8s args): /;

/**
 * Builds a row of why a pod has none.
 *
 * @param message What follows the context
 */
function fails(query: NetworksQuery, message: RegExp, code = 7): Row {
  return async () => {
    const error = await assertRejects(() => resolve(query), CniError);
    assertMatch(error.message, CONTEXT);
    assertMatch(error.message.replace(CONTEXT, ""), message);
    assertEquals(error.code, code);
  };
}

/** Builds a row about a directory that `confDir` is. */
function inDirectory(
  files: ConfFiles,
  row: (confDir: string) => Row,
): Row {
  return async (t) => {
    using directory = new ConfDirectory(files);
    await row(directory.path)(t);
  };
}

const NETS = { "test/net1": NET1, "test/net2": NET2, "test/net3": NET3 };
const MASTER = "weave1 weave-net";
const JSON_TEXT = JSON.stringify([
  { name: "net1" },
  { name: "net2", ipRequest: "1.2.3.4", macRequest: "aa:bb:cc:dd:ee:ff" },
  { name: "net3", namespace: "other-ns" },
]);
const GATEWAY_TEXT = JSON.stringify([
  { name: "net1" },
  { name: "net2", "default-route": ["192.168.2.2"] },
  { name: "net3", namespace: "other-ns" },
]);
const OTHER_NS = {
  "test/net1": NET1,
  "test/net2": NET2,
  "other-ns/net3": NET3,
};
const ALL = [MASTER, "net1 mynet", "net2 mynet2", "net3 mynet3"];
const CRDS = {
  "kube-system/myCRD1": { type: "mynet" },
  "kube-system/myCRD2": { type: "mynet2" },
};

conformance("multus networks", {
  "43 the short form": finds(
    podQuery({ [NETWORKS]: "net1,net2" }, NETS),
    ALL.slice(0, 3),
  ),
  "44 a missing definition has the reference's message": fails(
    podQuery({ [NETWORKS]: "net1,net2" }, { "test/net3": NET3 }),
    /^GetNetworkDelegates: failed getting the delegate: getKubernetesDelegate: cannot find a network-attachment-definition \(net1\) in namespace \(test\): network-attachment-definitions\.k8s\.cni\.cncf\.io "net1" not found$/,
  ),
  "45 the JSON form, with another namespace and unknown fields": finds(
    podQuery({ [NETWORKS]: JSON_TEXT }, OTHER_NS),
    ALL,
  ),
  "46 invalid JSON has the reference's message": fails(
    podQuery({ [NETWORKS]: "[adsfasdfasdfasf]" }, {}),
    /^parsePodNetworkAnnotation: failed to parse pod Network Attachment Selection Annotation JSON format: /,
  ),
  "47 a default route on the middle one": async () => {
    const query = podQuery({ [NETWORKS]: GATEWAY_TEXT }, OTHER_NS);
    const delegates = await resolveNetworks(query);
    assertEquals(
      delegates.map(({ request }) => request.defaultRoute?.map(String)),
      [undefined, undefined, ["192.168.2.2"], undefined],
    );
  },
  "48 definitions without configuration use files by their names": inDirectory(
    { "10-net1.conf": NET1, "20-net2.conf": NET2 },
    (confDir) =>
      finds(
        podQuery({ [NETWORKS]: "net1,net2" }, {
          "test/net1": "",
          "test/net2": "",
        }, { config: { ...STATIC, confDir } }),
        ALL.slice(0, 3),
      ),
  ),
  "48 a file that is invalid is named": inDirectory(
    { "10-net1.conf": NET1, "20-net2.conf": "asdfasdfasfdasfd" },
    (confDir) =>
      fails(
        podQuery({ [NETWORKS]: "net1,net2" }, {
          "test/net1": "",
          "test/net2": "",
        }, { config: { ...STATIC, confDir } }),
        new RegExp(
          "^GetNetworkDelegates: failed getting the delegate: GetCNIConfig: " +
            "err in GetCNIConfigFromFile: Error loading CNI config file " +
            `${confDir}/20-net2.conf: error parsing configuration: `,
        ),
        6,
      ),
  ),
  "49 the shortest configuration is given its name": finds(
    podQuery({ [NETWORKS]: "net1" }, { "test/net1": '{"type": "mynet"}' }),
    ALL.slice(0, 2),
  ),
  "50 a cluster network of a definition": finds(
    podQuery({}, CRDS, { config: { clusterNetwork: "myCRD1" } }),
    ["myCRD1 mynet"],
  ),
  "50 default networks of definitions": finds(
    podQuery({}, CRDS, {
      config: { clusterNetwork: "myCRD1", defaultNetworks: ["myCRD2"] },
    }),
    ["myCRD1 mynet", "myCRD2 mynet2"],
  ),
  "50 no default networks in kube-system": finds(
    podQuery({}, CRDS, {
      config: { clusterNetwork: "myCRD1", defaultNetworks: ["myCRD2"] },
      podNamespace: "kube-system",
    }),
    ["myCRD1 mynet"],
  ),
  "50 a cluster network of a CNI name": inDirectory(
    { "10-net1.conf": { ...NET1, name: "myFile1" } },
    (confDir) =>
      finds(
        podQuery({}, {}, { config: { clusterNetwork: "myFile1", confDir } }),
        ["myFile1 mynet"],
      ),
  ),
  "50 a cluster network of a directory": inDirectory(
    { "10-net1.conf": NET1 },
    (confDir) =>
      finds(podQuery({}, {}, { config: { clusterNetwork: confDir } }), [
        "net1 mynet",
      ]),
  ),
  "50 a cluster network of a file": inDirectory(
    { "10-net1.conf": NET1 },
    (confDir) =>
      finds(
        podQuery({}, {}, {
          config: { clusterNetwork: `${confDir}/10-net1.conf` },
        }),
        ["net1 mynet"],
      ),
  ),
  "50 a cluster network that is missing": inDirectory(
    {},
    (confDir) =>
      fails(
        podQuery({}, {}, { config: { clusterNetwork: "myCRD1", confDir } }),
        /^GetDefaultNetworks: failed to get clusterNetwork myCRD1 in namespace kube-system: .*"myCRD1" not found; No networks found in /,
      ),
  ),
  "51 an annotation replaces the cluster network": finds(
    podQuery(
      { [DEFAULT_NETWORK]: "net1" },
      {
        "kube-system/net1": { type: "mynet1" },
        "kube-system/net2": { type: "mynet2" },
      },
      { config: { clusterNetwork: "net2" } },
    ),
    ["net1 mynet1"],
  ),
  "51 an annotation replaces the first delegate": finds(
    podQuery(
      { [DEFAULT_NETWORK]: "net1" },
      { "kube-system/net1": { type: "mynet1" } },
    ),
    ["net1 mynet1"],
  ),
  "52 a path that is not a directory": fails(
    podQuery({ [DEFAULT_NETWORK]: "net1" }, { "kube-system/net1": "" }, {
      config: { ...STATIC, confDir: "badfilepath" },
    }),
    /No networks found in .*badfilepath$/,
  ),
  "53 without Kubernetes the delegates remain": finds(
    networksQuery(STATIC, { annotations: { [DEFAULT_NETWORK]: "net1" } }),
    [MASTER],
  ),
  "53 without Kubernetes and delegates nothing remains": fails(
    networksQuery({}, { annotations: { [DEFAULT_NETWORK]: "net1" } }),
    /at least one delegate\/clusterNetwork must be specified/,
  ),
  "54 isolation has the reference's message": fails(
    podQuery({ [NETWORKS]: "kube-system/net1" }, { "kube-system/net1": NET1 }, {
      config: { ...STATIC, namespaceIsolation: true },
    }),
    /^GetNetworkDelegates: namespace isolation enabled, annotation violates permission, pod is in namespace test but refers to target namespace kube-system$/,
  ),
  "54 isolation allows global namespaces": finds(
    podQuery({ [NETWORKS]: "kube-system/net1" }, { "kube-system/net1": NET1 }, {
      config: {
        ...STATIC,
        namespaceIsolation: true,
        globalNamespaces: "kube-system,donkey-kong",
      },
    }),
    ALL.slice(0, 2),
  ),
  "56 a resource with devices that cannot be listed": async () => {
    const client = new DefinitionStore();
    client.put("test/net1", NET1, "intel.com/sriov");
    const query = networksQuery(STATIC, {
      client,
      annotations: { [NETWORKS]: "net1" },
      takeDevice: () => Promise.reject(new CniError(5, "no kubelet")),
    });
    await assertRejects(() => resolve(query), CniError, "no kubelet");
  },
  ...expand([
    ["three parts", "root@someIP/root@someOtherIP/root@thirdIP"],
    ["two @", "root@someIP/root@someOtherIP@garbagevalue"],
    ["@ in the namespace", "root@someIP/root@someOtherIP"],
    ["a blank in the interface", "default/net1@myIfc Name"],
    ["a long interface", "default/net1@very_long_interface_name"],
  ], ([name, text]) => [
    `57 refused: ${name}`,
    fails(podQuery({ [NETWORKS]: text }, NETS), /^parsePodNetworkAnnotation: /),
  ]),
  ...expand(
    ["net1", "default/net1", "net1@my_interface", "default/net1@my_interface"],
    (text) => [
      `57 understood: ${text}`,
      () => assertEquals(parseNetworks(text, "test").length, 1),
    ],
  ),
  "92 the namespace is filled in": () => {
    const [short] = parseNetworks("net1", "test");
    const [long] = parseNetworks('[{"name":"net1"}]', "test");
    assertEquals([short?.namespace, long?.namespace], ["test", "test"]);
  },
  "93 a definition's configuration is taken as it is": async () => {
    const text = '{ "name":"net1",  "type": "mynet" }';
    const query = podQuery({ [NETWORKS]: "net1" }, { "test/net1": text });
    const [, delegate] = await resolveNetworks(query);
    assertEquals(new TextDecoder().decode(delegate?.conf.bytes), text);
  },
  "93 a definition without configuration uses *.conflist": inDirectory(
    {
      "10.conflist": { name: "net1", plugins: [{ type: "a" }, { type: "b" }] },
    },
    (confDir) =>
      finds(
        podQuery({ [NETWORKS]: "net1" }, { "test/net1": "" }, {
          config: { ...STATIC, confDir },
        }),
        [MASTER, "net1 a+b"],
      ),
  ),
  ...expand([
    ["a definition", "{", {}],
    ["*.conf", "", { "1.conf": "{" }],
    ["*.conflist", "", { "1.conflist": "{" }],
  ], ([name, config, files]) => [
    `93 invalid JSON in ${name}`,
    inDirectory(files, (confDir) =>
      fails(
        podQuery({ [NETWORKS]: "net1" }, { "test/net1": config }, {
          config: { ...STATIC, confDir },
        }),
        /^GetNetworkDelegates: failed getting the delegate: /,
        6,
      )),
  ]),
  ...expand([
    ["[null]", NETWORKS, "[null]"],
    ["[] for a master", DEFAULT_NETWORK, "[]"],
    ["a comma at the end", NETWORKS, "net1,"],
    ["blanks", NETWORKS, " "],
    ["no text for a master", DEFAULT_NETWORK, ""],
  ], ([name, annotation, text]) => [
    `what the reference fails to handle is refused: ${name}`,
    fails(podQuery({ [annotation]: text }, NETS), /parsePodNetwork|no default/),
  ]),
  "STATUS and GC are about the first delegate": async () => {
    const query = podQuery({ [DEFAULT_NETWORK]: "net1" }, CRDS, {
      config: { clusterNetwork: "myCRD1", defaultNetworks: ["missing"] },
    });
    assertEquals(describe(await resolveMaster(query)), "myCRD1 mynet");
  },
});
