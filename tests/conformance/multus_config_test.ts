/**
 * What multus makes of its configuration and of delegates: the rows of the list
 * that are about these, by their numbers.
 *
 * Source: multus-cni pkg/types/conf_test.go.
 */

import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { decode, type JsonObject, parseJson } from "../../base/json/json.ts";
import { parseNetworkConfList } from "../../libcni/conf.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import {
  type MultusConfig,
  multusSchema,
} from "../../plugins/multus/model/config.ts";
import {
  type Delegate,
  isList,
  loadDelegate,
  toDelegate,
} from "../../plugins/multus/model/delegate.ts";
import {
  injectCniArgs,
  injectCniVersion,
  injectDeviceId,
} from "../../plugins/multus/model/edit_delegate.ts";
import { parseNetworks } from "../../plugins/multus/select/annotations.ts";
import { readNetworkFile } from "../../plugins/multus/select/network_files.ts";
import { resolveNetworks } from "../../plugins/multus/select/select.ts";
import { ConfDirectory } from "../_harness/conf_directory.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { networksQuery } from "../../plugins/multus/testing/definitions.ts";
import { expand } from "./rows.ts";

const WEAVE = { name: "weave1", cniVersion: "0.2.0", type: "weave-net" };
const OTHER = { name: "other1", type: "other-plugin" };
const LIST = {
  name: "list1",
  cniVersion: "0.4.0",
  plugins: [
    { type: "sriov", vlan: 100, trust: "on" },
    { type: "tuning", sysctl: { "net.ipv4.conf.all.log_martians": "1" } },
  ],
};
const DEVICE = { resourceName: "intel.com/sriov", deviceId: "0000:00:00.0" };
const SET = { deviceID: "0000:00:00.0", pciBusID: "0000:00:00.0" };
const BAD_JSON = '{"name": "weave1", "type": "weave-n';

function encode(document: string | object): Uint8Array {
  const isText = typeof document === "string";
  return new TextEncoder().encode(isText ? document : JSON.stringify(document));
}

function documentOf({ conf }: Delegate): JsonObject {
  return JSON.parse(new TextDecoder().decode(conf.bytes));
}

function read(document: string | object): MultusConfig {
  const text = typeof document === "string"
    ? document
    : JSON.stringify(document);
  const what = "network configuration";
  return decode(multusSchema(), parseJson(text, what), what);
}

/** Builds a row of documents that fail to load. */
function refuses(load: () => unknown, code: number): Row {
  return () => {
    assertEquals(assertThrows(load, CniError).code, code);
  };
}

/** Builds a row of a configuration whose networks fail to resolve. */
function refusesNetworks(config: object, code: number): Row {
  return async () => {
    const query = networksQuery(config);
    const error = await assertRejects(() => resolveNetworks(query), CniError);
    assertEquals(error.code, code);
  };
}

function pluginsOf(delegate: Delegate): readonly JsonObject[] {
  assert(isList(delegate.conf));
  return delegate.conf.plugins.map(({ document }) => document);
}

/** The values of a selection's elements. */
function requestOf(fields: object): Delegate["request"] | undefined {
  const text = JSON.stringify([{ name: "net1", ...fields }]);
  return parseNetworks(text, "test")[0]?.request;
}

const FIXTURE = {
  cniVersion: "0.3.1",
  name: "multus-cni-network",
  type: "multus",
  capabilities: { portMappings: true },
  kubeconfig: "/etc/cni/net.d/multus.d/multus.kubeconfig",
  delegates: [{
    name: "kube-ovn",
    cniVersion: "0.3.1",
    plugins: [
      {
        type: "kube-ovn",
        server_socket: "/run/openvswitch/kube-ovn-daemon.sock",
      },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  }],
};
/** What Go's multus has remembered of it. */
const FIXTURE_BYTES =
  "eyJjbmlWZXJzaW9uIjoiMC4zLjEiLCJuYW1lIjoia3ViZS1vdm4iLCJwbHVnaW5zIjpbey" +
  "JzZXJ2ZXJfc29ja2V0IjoiL3J1bi9vcGVudnN3aXRjaC9rdWJlLW92bi1kYWVtb24uc29j" +
  "ayIsInR5cGUiOiJrdWJlLW92biJ9LHsiY2FwYWJpbGl0aWVzIjp7InBvcnRNYXBwaW5ncy" +
  "I6dHJ1ZX0sInR5cGUiOiJwb3J0bWFwIn1dfQ==";

conformance("multus config", {
  "1 a valid configuration is read": async () => {
    const { config, ...query } = networksQuery({
      delegates: [WEAVE],
      runtimeConfig: {
        portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
      },
    });
    const [master, ...others] = await resolveNetworks({ config, ...query });
    assertEquals([master?.name, others], ["weave1", []]);
    assertEquals(config.runtimeConfig["portMappings"], [
      { hostPort: 8080, containerPort: 80, protocol: "tcp" },
    ]);
  },
  "2 a truncated configuration is refused": refuses(() => read(BAD_JSON), 6),
  "2 a truncated delegate is refused": refuses(
    () => loadDelegate(encode(BAD_JSON)),
    6,
  ),
  "2 a truncated list is refused": refuses(
    () => loadDelegate(encode(JSON.stringify(LIST).slice(0, -10))),
    6,
  ),
  "3 level, file and rotation of the log are read": () => {
    const config = read({
      logLevel: "debug",
      logFile: "/var/log/multus.log",
      logOptions: { maxAge: 5, maxSize: 100, maxBackups: 5, compress: true },
    });
    assertEquals([config.logLevel, config.logFile, config.logOptions], [
      "debug",
      "/var/log/multus.log",
      { maxAgeDays: 5, maxSizeMegabytes: 100, maxBackups: 5, compress: true },
    ]);
  },
  "4 globalNamespaces defaults to default": () => {
    const config = read({ namespaceIsolation: true });
    assertEquals(config.nonIsolatedNamespaces, ["default"]);
  },
  "4 globalNamespaces are trimmed": () => {
    const config = read({ globalNamespaces: " foo,bar ,default" });
    assertEquals(config.nonIsolatedNamespaces, ["foo", "bar", "default"]);
  },
  "5 a prevResult without cniVersion is read": () => {
    const prevResult = {
      ip4: { ip: "10.1.1.2/24", gateway: "10.1.1.1" },
      dns: {},
    };
    const config = read({ delegates: [WEAVE], prevResult });
    const [ip] = decodeResult(config.prevResult, "0.1.0").ips;
    assertEquals(ip?.address.toString(), "10.1.1.2/24");
  },
  "6 delegates are enough, and the first is the master": async () => {
    const query = networksQuery({ delegates: [WEAVE, OTHER] });
    const delegates = await resolveNetworks(query);
    assertEquals(delegates.map(({ name }) => name), ["weave1", "other1"]);
  },
  "7 neither delegates nor kubeconfig is refused": refusesNetworks({}, 7),
  "7 a kubeconfig is not a network": refusesNetworks(
    { kubeconfig: "/etc/kubeconfig" },
    7,
  ),
  "8 a delegate with neither type nor plugins is refused": refusesNetworks(
    { delegates: [{ name: "weave1" }] },
    7,
  ),
  "9 the default is no readiness file": () =>
    assertEquals(read({}).readinessIndicatorFile, undefined),
  "9 a readiness file is kept": () => {
    const config = read({ readinessindicatorfile: "/etc/cni/net.d/foo" });
    assertEquals(config.readinessIndicatorFile, "/etc/cni/net.d/foo");
  },
  "10 the system's namespaces are compared to the letter": async () => {
    using directory = new ConfDirectory({ "1.conf": WEAVE, "2.conf": OTHER });
    const config = {
      clusterNetwork: "weave1",
      defaultNetworks: ["other1"],
      systemNamespaces: ["default", "kube-system"],
      confDir: directory.path,
    };
    const count = async (podNamespace: string): Promise<number> =>
      (await resolveNetworks(networksQuery(config, { podNamespace }))).length;
    const namespaces = ["default", "kube-system", "defaults", "Default", ""];
    const counts = await Promise.all(namespaces.map(count));
    assertEquals(counts, [1, 1, 2, 2, 2]);
  },
  "11 a device goes into a bare plugin": () => {
    const delegate = injectDeviceId(loadDelegate(encode(WEAVE)), DEVICE);
    assertEquals(documentOf(delegate), { ...WEAVE, ...SET });
  },
  "11 a device goes into a list of one": () => {
    const list = { ...LIST, plugins: [{ type: "sriov" }] };
    const delegate = injectDeviceId(loadDelegate(encode(list)), DEVICE);
    assertEquals(pluginsOf(delegate), [{ type: "sriov", ...SET }]);
  },
  "11 a device goes into every plugin of a list": () => {
    const delegate = injectDeviceId(loadDelegate(encode(LIST)), DEVICE);
    const expected = LIST.plugins.map((plugin) => ({ ...plugin, ...SET }));
    assertEquals(pluginsOf(delegate), expected);
    assertEquals(documentOf(delegate), { ...LIST, plugins: expected });
  },
  "12 cni-args are added to a configuration without args": () => {
    const delegate = injectCniArgs(loadDelegate(encode(WEAVE)), { key1: "v1" });
    const args = { cni: { key1: "v1" } };
    assertEquals(documentOf(delegate), { ...WEAVE, args });
  },
  "12 cni-args are merged with those that are there": () => {
    const cni = { key1: "old", key2: "v2" };
    const conf = { ...WEAVE, args: { cni } };
    const delegate = injectCniArgs(loadDelegate(encode(conf)), { key1: "v1" });
    const args = { cni: { key1: "v1", key2: "v2" } };
    assertEquals(documentOf(delegate), { ...WEAVE, args });
  },
  "12 cni-args are added to every plugin of a list": () => {
    const delegate = injectCniArgs(loadDelegate(encode(LIST)), { key1: "v1" });
    const args = { cni: { key1: "v1" } };
    assertEquals(
      pluginsOf(delegate),
      LIST.plugins.map((plugin) => ({ ...plugin, args })),
    );
  },
  "16 what a selection asks for lands on the delegate": () => {
    const request = requestOf({
      interface: "ifname",
      mac: "c2:11:22:33:44:55",
      "infiniband-guid": "24:8a:07:03:00:8d:ae:2e",
      ips: ["10.1.1.1/24"],
      bandwidth: { ingressRate: 1, egressRate: 2 },
      portMappings: [{ hostPort: 1, containerPort: 2, protocol: "tcp" }],
    });
    assert(request);
    const delegate = loadDelegate(encode(WEAVE), {
      name: "test/net1",
      request,
    });
    assertEquals(delegate.request, {
      ifName: "ifname",
      mac: "c2:11:22:33:44:55",
      infinibandGuid: "24:8a:07:03:00:8d:ae:2e",
      ips: ["10.1.1.1/24"],
      bandwidth: { ingressRate: 1, egressRate: 2 },
      portMappings: [{ hostPort: 1, containerPort: 2, protocol: "tcp" }],
    });
  },
  "18 a delegate is called as its configuration": () =>
    assertEquals(loadDelegate(encode(WEAVE)).name, "weave1"),
  "18 a delegate is called as its list": () =>
    assertEquals(loadDelegate(encode(LIST)).name, "list1"),
  ...expand([
    ["absent", {}, undefined],
    ["empty", { "default-route": [] }, []],
    ["IPv4", { "default-route": ["10.1.1.1"] }, [4]],
    ["both families", { "default-route": ["10.1.1.1", "fd::1"] }, [4, 6]],
  ], ([name, fields, families]) => [
    `19 default-route: ${name}`,
    () =>
      assertEquals(
        requestOf(fields)?.defaultRoute?.map(({ family }) => family),
        families?.slice(),
      ),
  ]),
  "20 a list keeps what only its plugins know": () => {
    const delegate = loadDelegate(encode(LIST));
    assertEquals(documentOf(delegate), LIST);
  },
  "20 a list has the plugins of the directory beside it": () => {
    using directory = new ConfDirectory({
      "10.conflist": LIST,
      "list1/20.conf": { type: "chained", special: [1, { a: 2 }] },
    });
    const path = `${directory.path}/10.conflist`;
    const delegate = toDelegate(readNetworkFile(path));
    const plugins = [
      ...LIST.plugins,
      { type: "chained", special: [1, { a: 2 }] },
    ];
    assertEquals(pluginsOf(delegate), plugins);
    assertEquals(documentOf(delegate)["plugins"], plugins);
  },
  "20 a device keeps what only the plugins of the directory know": () => {
    using directory = new ConfDirectory({
      "10.conflist": LIST,
      "list1/20.conf": { type: "chained", special: true },
    });
    const path = `${directory.path}/10.conflist`;
    const delegate = injectDeviceId(toDelegate(readNetworkFile(path)), DEVICE);
    assertEquals(pluginsOf(delegate), [
      ...LIST.plugins.map((plugin) => ({ ...plugin, ...SET })),
      { type: "chained", special: true, ...SET },
    ]);
    // What is remembered is what is run.
    const remembered = parseNetworkConfList(delegate.conf.bytes).plugins;
    assertEquals(
      remembered.map(({ document }) => document),
      pluginsOf(delegate),
    );
  },
  "20 a version keeps all fields": () => {
    const { cniVersion: _, ...unversioned } = LIST;
    const delegate = loadDelegate(encode(unversioned));
    const versioned = injectCniVersion(delegate, "1.0.0");
    assertEquals(documentOf(versioned), { ...LIST, cniVersion: "1.0.0" });
  },
  "a delegate of the configuration is Go's bytes": async () => {
    const [master] = await resolveNetworks(networksQuery(FIXTURE));
    const bytes = new Uint8Array(master?.conf.bytes ?? []);
    assertEquals(bytes.toBase64(), FIXTURE_BYTES);
  },
  "an empty list of plugins is refused": refusesNetworks(
    { delegates: [{ name: "a", plugins: [] }] },
    7,
  ),
});
