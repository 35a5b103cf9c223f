// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * multus and changes to a pod during a call, permissions, and networks that
 * replace the master: what users of a cluster expect beyond the list.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { runIn } from "../../testing/ip_json.ts";
import { CONTAINER, MultusScene } from "../../plugins/multus/testing/scene.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";

const AREA = "multus cluster";

const POD_ANNOTATIONS = "io.kubernetes.cri.pod-annotations";
const CONFIG_SOURCE = "kubernetes.io/config.source";
const DEFAULT_NETWORK = "v1.multus-cni.io/default-network";

/** Builds a row of a scene with a pod of networks net1 and net2, whose master is weave1. */
function row(run: (scene: MultusScene) => Promise<void>): Row {
  return async () => {
    await using scene = await MultusScene.start();
    addLinked(scene, "weave-net", "eth0", "1.1.1.2/24");
    for (const [name, address] of [["net1", 3], ["net2", 4]] as const) {
      addLinked(scene, name, name, `1.1.1.${address}/24`);
      scene.api.putNad("test", name, scene.conf(name, name));
    }
    scene.putPod("net1,net2");
    await run(scene);
  };
}

/** Adds a plugin that creates an interface to report. */
function addLinked(
  scene: MultusScene,
  type: string,
  name: string,
  address: string,
): void {
  const ADD = `echo '${
    JSON.stringify({
      cniVersion: "1.0.0",
      interfaces: [{ name, sandbox: "/run/netns/a" }],
      ips: [{ address, interface: 0 }],
    })
  }'`;
  scene.addPlugin(type, undefined, { ADD });
}

function master(scene: MultusScene): { delegates: JsonObject[] } {
  return { delegates: [scene.conf("weave1", "weave-net")] };
}

function assertSuccess({ exitCode, stdout, stderr }: CallOutput): void {
  assertEquals([exitCode, stderr], [0, ""], stdout);
}

function assertFailure(
  { exitCode, json }: CallOutput,
  code: number,
  text: string,
): void {
  assertEquals([exitCode, json?.code], [1, code], JSON.stringify(json));
  assertStringIncludes(json.msg, text);
}

/** Lists the networks in the pod's status. */
function told(scene: MultusScene): string[] {
  return (scene.api.networkStatus("test", "testpod") ?? [])
    .map(({ name }: { name: string }) => name);
}

const ALL = ["weave1", "test/net1", "test/net2"];
const ADDS = ["weave-net ADD eth0", "net1 ADD net1", "net2 ADD net2"];
const DELS = ["net2 DEL net2", "net1 DEL net1", "weave-net DEL eth0"];

conformance(AREA, {
  "a pod gone before the status write is attached": row(async (scene) => {
    scene.api.fault({ method: "PATCH", status: 404 });
    assertSuccess(await scene.runForPod("ADD", master(scene), "testUID"));
    assertEquals(scene.story, ADDS);
  }),
  "a pod replaced before the status write fails": row(async (scene) => {
    // The runtime does not know the UID; the API's changes during the call.
    const replaced = `${scene.hosts.directory}/replaced`;
    scene.addPlugin("weave-net", undefined, {
      ADD: `while ! [ -e '${replaced}' ]; do sleep 0.01; done
        echo '{"cniVersion":"1.0.0"}'`,
    });
    const adding = scene.runForPod("ADD", master(scene));
    while (scene.story.length === 0) await tick();
    scene.api.putPod({
      metadata: { namespace: "test", name: "testpod", uid: "newUID" },
    });
    Deno.writeTextFileSync(replaced, "");
    const text = 'expected pod UID "testUID" but got "newUID" from Kube API';
    assertFailure(await adding, 4, text);
    assertEquals(scene.story, [...ADDS, ...DELS]);
    assertEquals(told(scene), []);
  }),
  "the UID of a static pod is not the API's": row(async (scene) => {
    scene.putPod("net1,net2", { [CONFIG_SOURCE]: "file" });
    assertSuccess(await scene.runForPod("ADD", master(scene), "hashOfFile"));
    assertEquals(told(scene), ALL);
    const { args = "" } = scene.call("net1", "ADD") ?? {};
    assertStringIncludes(args, "K8S_POD_UID=hashOfFile");
  }),
  "a static pod's UID is not the API's": row(async (scene) => {
    const annotations = {
      [CONFIG_SOURCE]: "file",
      "k8s.v1.cni.cncf.io/networks": "net1,net2",
    };
    const runtimeConfig = { [POD_ANNOTATIONS]: annotations };
    const keys = { ...master(scene), runtimeConfig };
    assertSuccess(await scene.runForPod("ADD", keys, "hashOfFile"));
    assertEquals(told(scene), ALL);
  }),
  "DEL of a replaced pod reads nothing of the new": row(async (scene) => {
    await scene.runForPod("ADD", master(scene), "testUID");
    Deno.removeSync(scene.cniDir, { recursive: true });
    scene.api.putPod({
      metadata: { namespace: "test", name: "testpod", uid: "newUID" },
    });
    const deleted = await scene.runForPod("DEL", master(scene), "testUID");
    assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
    assertEquals(scene.story.slice(3), ["weave-net DEL eth0"]);
  }),
  "DEL needs no kubeconfig that is one": row(async (scene) => {
    await scene.runForPod("ADD", master(scene));
    Deno.writeTextFileSync(scene.kubeconfig, "\0garbage: [");
    assertSuccess(await scene.runForPod("DEL", master(scene)));
    assertEquals([scene.story, scene.remembered], [[...ADDS, ...DELS], []]);
  }),
  "DEL of an unknown attachment needs no kubeconfig": row(async (scene) => {
    Deno.writeTextFileSync(scene.kubeconfig, "\0garbage: [");
    const { exitCode, stdout } = await scene.runForPod("DEL", master(scene));
    assertEquals([exitCode, stdout], [0, ""]);
    assertEquals(scene.story, ["weave-net DEL eth0"]);
  }),
}, needsRoot);

function tick(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}

/** Something that this client has never heard of. */
const FUTURE = { phase: "Pending", futureField: { deep: [1, 2, { x: null }] } };

conformance(AREA, {
  "without PATCH the status is PUT, with unknown keys": row(async (scene) => {
    const metadata = {
      namespace: "test",
      name: "testpod",
      uid: "testUID",
      annotations: {
        "k8s.v1.cni.cncf.io/networks": "net1,net2",
        other: "stays",
      },
    };
    const spec = { nodeName: "node1", futureKey: "kept" };
    const before = scene.api.putPod({ metadata, spec, status: FUTURE });
    scene.api.forbid("patch", "pods/status");
    assertSuccess(await scene.runForPod("ADD", master(scene), "testUID"));
    assertEquals(told(scene), ALL);
    const pod = scene.api.pod("test", "testpod");
    for (const key of ["spec", "status"]) {
      assertEquals(pod?.[key], before[key], key);
    }
    assertEquals(pod?.metadata.annotations?.["other"], "stays");
    assertEquals(scene.api.requestsOf("PUT").length, 1);
  }),
  "PATCH sends only the annotation and the UID": row(async (scene) => {
    await scene.runForPod("ADD", master(scene), "testUID");
    const [patch] = scene.api.requestsOf("PATCH");
    assert(patch);
    const { metadata: { annotations, ...metadata }, ...others } = JSON.parse(
      patch.body,
    );
    assertEquals([others, metadata], [{}, { uid: "testUID" }]);
    assertEquals(Object.keys(annotations), [
      "k8s.v1.cni.cncf.io/network-status",
    ]);
  }),
  "who may write neither way attaches nothing": row(async (scene) => {
    for (const verb of ["patch", "update"]) {
      scene.api.forbid(verb, "pods/status");
    }
    const added = await scene.runForPod("ADD", master(scene));
    assertFailure(added, 7, "forbidden");
    assertEquals(scene.story, [...ADDS, ...DELS]);
    assertEquals(scene.remembered, [CONTAINER]);
  }),
  "who may not post events attaches all the same": row(async (scene) => {
    scene.api.forbid("create", "events");
    assertSuccess(await scene.runForPod("ADD", master(scene)));
    assertEquals([told(scene), scene.api.events], [ALL, []]);
  }),
  "events without a response do not delay for long": row(async (scene) => {
    scene.api.fault({ path: /events/, delayMs: 120_000 });
    const startedAt = performance.now();
    assertSuccess(await scene.runForPod("ADD", master(scene)));
    assert(performance.now() - startedAt < 60_000);
    assertEquals(told(scene), ALL);
  }),
  "a missing definition is an event of the pod": row(async (scene) => {
    scene.api.removeNad("test", "net2");
    const added = await scene.runForPod("ADD", master(scene));
    const text =
      "cannot find a network-attachment-definition (net2) in namespace (test): ";
    assertFailure(added, 7, text);
    assertEquals(scene.api.eventTexts, [
      `Warning NoNetworkFound ${text}` +
      'network-attachment-definitions.k8s.cni.cncf.io "net2" not found',
    ]);
    assertEquals([scene.story, scene.remembered], [[], []]);
  }),
  "an invalid annotation attaches nothing": row(async (scene) => {
    scene.putPod("net1,net2@a@b");
    const added = await scene.runForPod("ADD", master(scene));
    assertFailure(added, 7, "failed at '@'");
    assertEquals([scene.story, scene.remembered], [[], []]);
  }),
}, needsRoot);

/** Builds a row for a scene that also has network `kube-system/big`. */
function masterRow(
  run: (scene: MultusScene) => Promise<void>,
  defaultNetwork: string,
  networks?: string,
): Row {
  return row(async (scene) => {
    addLinked(scene, "big", "eth0", "2.2.2.2/24");
    const capabilities = { ips: true, mac: true };
    const config = scene.conf("big", "big", { capabilities });
    scene.api.putNad("kube-system", "big", config);
    scene.api.putNad("test", "big", config);
    scene.putPod(networks, { [DEFAULT_NETWORK]: defaultNetwork });
    await run(scene);
  });
}

conformance(AREA, {
  "default-network replaces the master": masterRow(
    async (scene) => {
      const added = await scene.runForPod("ADD", master(scene));
      assertSuccess(added);
      assertEquals(added.json.ips[0].address, "2.2.2.2/24");
      assertEquals(scene.story, ["big ADD eth0", "net1 ADD net1"]);
      const [first] = scene.api.networkStatus("test", "testpod");
      assertEquals([first.name, first.default], ["kube-system/big", true]);
      assertSuccess(await scene.runForPod("DEL", master(scene)));
      assertEquals(scene.story.slice(2), ["net1 DEL net1", "big DEL eth0"]);
    },
    "big",
    "net1",
  ),
  "default-network replaces a cluster network, which is not fetched": masterRow(
    async (scene) => {
      const keys = { clusterNetwork: "weave" };
      assertSuccess(await scene.runForPod("ADD", keys));
      assertEquals(scene.story, ["big ADD eth0"]);
      assertEquals(scene.api.requestsOf("GET", /definitions\/weave/), []);
    },
    "kube-system/big",
  ),
  "the values of default-network are in CNI_ARGS": masterRow(
    async (scene) => {
      assertSuccess(await scene.runForPod("ADD", master(scene)));
      const { stdin, args, ifName } = scene.call("big", "ADD") ?? {};
      assertEquals(stdin.runtimeConfig, undefined);
      assert(args?.endsWith(";MAC=c2:11:22:33:44:66;IP=2.2.2.2"), args);
      assertEquals(ifName, "ext0");
    },
    JSON.stringify([{
      name: "big",
      interface: "ext0",
      mac: "c2:11:22:33:44:66",
      ips: ["2.2.2.2"],
    }]),
  ),
  "default-network of a namespace that is out of bounds is refused": masterRow(
    async (scene) => {
      scene.api.putNad("secret", "big", scene.conf("big", "big"));
      const keys = { ...master(scene), namespaceIsolation: true };
      const added = await scene.runForPod("ADD", keys);
      assertFailure(added, 7, "refers to target namespace secret");
      assertEquals([scene.story, scene.remembered], [[], []]);
    },
    "secret/big",
  ),
  "default-network of multus' namespace is in bounds": masterRow(
    async (scene) => {
      const keys = { ...master(scene), namespaceIsolation: true };
      assertSuccess(await scene.runForPod("ADD", keys));
      assertEquals(scene.story, ["big ADD eth0"]);
    },
    "big",
  ),
  "two default networks are one too many": masterRow(
    async (scene) => {
      const added = await scene.runForPod("ADD", master(scene));
      assertFailure(added, 7, "more than one default network is specified");
      assertEquals(scene.story, []);
    },
    "big,test/big",
  ),
}, needsRoot);

const ISOLATED = { namespaceIsolation: true };

conformance(AREA, {
  "isolation refuses a network of another namespace": row(async (scene) => {
    scene.putPod("net1,secret/net2");
    const keys = { ...master(scene), ...ISOLATED };
    assertFailure(
      await scene.runForPod("ADD", keys),
      7,
      "namespace isolation enabled, annotation violates permission, pod is " +
        "in namespace test but refers to target namespace secret",
    );
    assertEquals(scene.api.requestsOf("GET", /definitions/), []);
    assertEquals([scene.story, scene.remembered], [[], []]);
  }),
  "isolation allows own, default, global namespaces": row(async (scene) => {
    for (const namespace of ["default", "shared"]) {
      scene.api.putNad(namespace, "net2", scene.conf("net2", "net2"));
    }
    scene.putPod("net1,shared/net2@s1,default/net2@d1");
    const keys = {
      ...master(scene),
      ...ISOLATED,
      globalNamespaces: "default, shared",
    };
    assertSuccess(await scene.runForPod("ADD", keys));
    assertEquals(told(scene), [
      "weave1",
      "test/net1",
      "shared/net2",
      "default/net2",
    ]);
  }),
}, needsRoot);

conformance(AREA, {
  "default networks come before the pod's, and count": row(async (scene) => {
    for (const name of ["cluster", "extra"]) {
      addLinked(scene, name, name, "3.3.3.3/24");
      scene.api.putNad("kube-system", name, scene.conf(name, name));
    }
    const keys = { clusterNetwork: "cluster", defaultNetworks: ["extra"] };
    assertSuccess(await scene.runForPod("ADD", keys));
    assertEquals(scene.story, [
      "cluster ADD eth0",
      "extra ADD net1",
      "net1 ADD net2",
      "net2 ADD net3",
    ]);
  }),
  "a network may be chosen twice": row(async (scene) => {
    scene.putPod("net1,net1");
    assertSuccess(await scene.runForPod("ADD", master(scene)));
    assertEquals(told(scene), ["weave1", "test/net1", "test/net1"]);
    assertSuccess(await scene.runForPod("DEL", master(scene)));
    assertEquals(scene.story, [
      "weave-net ADD eth0",
      "net1 ADD net1",
      "net1 ADD net2",
      "net1 DEL net2",
      "net1 DEL net1",
      "weave-net DEL eth0",
    ]);
    assertEquals(scene.remembered, []);
  }),
  "two networks cannot have one interface": row(async (scene) => {
    scene.putPod("net1@ext0,net2@ext0");
    const added = await scene.runForPod("ADD", master(scene));
    assertFailure(
      added,
      4,
      'DelegateAdd: cannot set "net2" interface name to "ext0": ' +
        "validateIfName: interface name ext0 already exists",
    );
    assertEquals([scene.story, scene.remembered], [[], []]);
  }),
  "an existing interface is not replaced": row(async (scene) => {
    scene.putPod("net1@lo");
    const added = await scene.runForPod("ADD", master(scene));
    assertFailure(added, 4, "interface name lo already exists");
    assertEquals([scene.story, scene.remembered], [[], []]);
  }),
  "a second ADD of a container keeps the first": row(async (scene) => {
    const sandbox = scene.hosts.addNetns();
    const options = { sandbox };
    const keys = { ...master(scene), kubeconfig: "" };
    assertSuccess(await scene.runForPod("ADD", keys, "", options));
    // What the plugin would have made.
    runIn(sandbox, "ip", "link", "add", "eth0", "type", "veth");
    const added = await scene.runForPod("ADD", keys, "", options);
    assertFailure(added, 4, "interface name eth0 already exists");
    assertEquals(scene.story, ["weave-net ADD eth0"]);
    assertEquals(scene.remembered, [
      CONTAINER,
      `results/weave1-${CONTAINER}-eth0`,
    ]);
  }),
  "a network that is multus is refused": row(async (scene) => {
    const plugins = [{ type: "net1" }, { type: "multus-shim" }];
    scene.api.putNad("test", "net2", { cniVersion: "1.0.0", plugins });
    const added = await scene.runForPod("ADD", master(scene));
    assertFailure(
      added,
      7,
      'Cannot attach to network "test/net2": multus would call itself',
    );
    assertEquals([scene.story, scene.remembered], [[], []]);
  }),
  "a cluster network's directory skips multus' own file": row(async (scene) => {
    const directory = `${scene.hosts.directory}/net.d`;
    Deno.mkdirSync(directory);
    const write = (name: string, conf: JsonObject): void =>
      Deno.writeTextFileSync(`${directory}/${name}`, JSON.stringify(conf));
    write(
      "00-multus.conf",
      scene.conf("multus-cni-network", "multus", {
        clusterNetwork: directory,
      }),
    );
    write("10-weave.conf", scene.conf("weave1", "weave-net"));
    const keys = { clusterNetwork: directory, kubeconfig: "" };
    assertSuccess(await scene.runForPod("ADD", keys));
    assertEquals(scene.story, ["weave-net ADD eth0"]);
  }),
}, needsRoot);
