// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * multus and the pods of a cluster: rows 33 to 39, 53, 55 and 58 of the list.
 * The part of row 38 about informers does not apply: it is another program.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { conformance } from "../_harness/conformance.ts";
import {
  CONTAINER,
  eachVersion,
  MultusScene,
  resultOf,
  type VersionRow,
} from "../../plugins/multus/testing/scene.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";

/** The runtime hands the pod's annotations over, so that nobody asks for the pod. */
const HANDED = { "io.kubernetes.cri.pod-annotations": {} };

type SceneRow = (scene: MultusScene, cniVersion: string) => Promise<void>;

/** Builds a row of a scene with a pod of networks net1 and net2. */
function row(run: SceneRow): VersionRow {
  return async (cniVersion) => {
    await using scene = await MultusScene.start(cniVersion);
    scene.addPlugin("weave-net", "1.1.1.2/24");
    scene.addNetwork("test", "net1", "1.1.1.3/24");
    scene.addNetwork("test", "net2", "1.1.1.4/24");
    scene.addNetwork("test", "net3", "1.1.1.5/24");
    scene.putPod("net1,net2");
    await run(scene, cniVersion);
  };
}

function master(
  scene: MultusScene,
): { delegates: JsonObject[] } {
  return { delegates: [scene.conf("weave1", "weave-net")] };
}

function assertSuccess({ exitCode, stdout, stderr }: CallOutput): void {
  assertEquals([exitCode, stderr], [0, ""], stdout);
}

const ADDS = ["weave-net ADD eth0", "net1 ADD net1", "net2 ADD net2"];
const DELS = ["net2 DEL net2", "net1 DEL net1", "weave-net DEL eth0"];

conformance(
  "multus pods",
  eachVersion({
    "33 the annotation's networks, in order": row(async (scene, cniVersion) => {
      const added = await scene.runForPod("ADD", master(scene));
      assertSuccess(added);
      assertEquals(added.json, resultOf(cniVersion, "1.1.1.2/24"));
      assertEquals(scene.story, ADDS);
    }),
    "33 a network not requested is not fetched": row(async (scene) => {
      await scene.runForPod("ADD", master(scene));
      const fetched = scene.api.requestsOf("GET", /network-attachment/)
        .map(({ path }) => path.split("/").at(-1)).sort();
      assertEquals(fetched, ["net1", "net2"]);
    }),
    "33 each attachment has an event": row(async (scene) => {
      await scene.runForPod("ADD", master(scene));
      assertEquals(scene.api.eventTexts.sort(), [
        "Normal AddedInterface Add eth0 [1.1.1.2/24] from weave1",
        "Normal AddedInterface Add net1 [1.1.1.3/24] from test/net1",
        "Normal AddedInterface Add net2 [1.1.1.4/24] from test/net2",
      ]);
    }),
    "34 DEL of a missing pod detaches everything": row(async (scene) => {
      await scene.runForPod("ADD", master(scene));
      scene.api.removePod("test", "testpod");
      scene.api.clearRequests();
      assertSuccess(await scene.runForPod("DEL", master(scene)));
      assertEquals(scene.story, [...ADDS, ...DELS]);
      assertEquals(scene.remembered, []);
      assertEquals(scene.api.requests, []);
    }),
    "37 another UID than the runtime's fails ADD": row(async (scene) => {
      const added = await scene.runForPod("ADD", master(scene), "otherUID");
      assertEquals([added.exitCode, added.json.code], [1, 4]);
      assertEquals(
        added.json.msg,
        "Multus: [test/testpod/otherUID]: " +
          'expected pod UID "otherUID" but got "testUID" from Kube API',
      );
      assertEquals([scene.story, scene.remembered], [[], []]);
    }),
    "37 the runtime's UID is last in CNI_ARGS": row(async (scene) => {
      assertSuccess(await scene.runForPod("ADD", master(scene), "testUID"));
      const args = "IgnoreUnknown=true;K8S_POD_NAMESPACE=test;" +
        "K8S_POD_NAME=testpod;K8S_POD_INFRA_CONTAINER_ID=;" +
        "K8S_POD_UID=testUID";
      for (const call of scene.plugins.calls) assertEquals(call.args, args);
    }),
    "37 an unknown UID is empty in CNI_ARGS": row(async (scene) => {
      assertSuccess(await scene.runForPod("ADD", master(scene)));
      for (const { args } of scene.plugins.calls) {
        assert(args.endsWith(";K8S_POD_INFRA_CONTAINER_ID=;K8S_POD_UID="));
      }
    }),
    "38 the API's cluster network is eth0": row(async (scene, cniVersion) => {
      scene.addNetwork("kube-system", "weave", "1.1.1.2/24");
      const keys = { clusterNetwork: "weave" };
      const added = await scene.runForPod("ADD", keys);
      assertSuccess(added);
      assertEquals(added.json, resultOf(cniVersion, "1.1.1.2/24"));
      assertSuccess(await scene.runForPod("DEL", keys));
      const renamed = [...ADDS, ...DELS]
        .map((call) => call.replace("weave-net", "weave"));
      assertEquals(scene.story, renamed);
    }),
    "39 the scratch file is there after ADD": row(async (scene) => {
      await scene.runForPod("ADD", master(scene));
      const networks = JSON.parse(Deno.readTextFileSync(scene.scratchFile));
      assertEquals(
        networks.map(({ Name }: { Name: string }) => Name),
        ["weave1", "test/net1", "test/net2"],
      );
    }),
    "39 DEL with an empty disk asks the API": row(async (scene) => {
      await scene.runForPod("ADD", master(scene));
      Deno.removeSync(scene.cniDir, { recursive: true });
      assertSuccess(await scene.runForPod("DEL", master(scene)));
      assertEquals(scene.story, [...ADDS, ...DELS]);
    }),
  }),
  needsRoot,
);

/** The values of a network in the annotation. */
const REQUEST = {
  name: "net1",
  mac: "c2:11:22:33:44:66",
  ips: ["10.0.0.1"],
  bandwidth: {
    ingressRate: 2048,
    ingressBurst: 1600,
    egressRate: 4096,
    egressBurst: 1600,
  },
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
};

conformance(
  "multus pods",
  eachVersion({
    "35 only its network receives annotation values": row(async (scene) => {
      const { name: _, ...asked } = REQUEST;
      const capabilities = Object.fromEntries(
        Object.keys(asked).map((key) => [key, true]),
      );
      scene.api.putNad(
        "test",
        "net1",
        scene.conf("net1", "net1", { capabilities }),
      );
      scene.putPod(JSON.stringify([REQUEST]));
      const delegates = [
        scene.conf("weave1", "weave-net", { capabilities }),
      ];
      assertSuccess(await scene.runForPod("ADD", { delegates }));
      const weave = scene.call("weave-net", "ADD");
      const net1 = scene.call("net1", "ADD");
      assertEquals(weave?.stdin.runtimeConfig, undefined);
      assertEquals(net1?.stdin.runtimeConfig, asked);
      assertEquals(/;(MAC|IP)=/.test(weave?.args ?? ""), false);
      assert(net1?.args.endsWith(";MAC=c2:11:22:33:44:66;IP=10.0.0.1"));
    }),
    "55 CNI_ARGS without = are refused": row(async (scene) => {
      const env = { CNI_ARGS: "IgnoreUnknown=true;K8S_POD_NAME:testpod" };
      const added = await scene.runForPod("ADD", master(scene), "", { env });
      assertEquals([added.exitCode, added.json.code], [1, 4]);
      assertMatch(
        added.json.msg,
        /^Multus: error getting k8s args: .*ARGS: invalid pair/,
      );
      assertEquals(scene.story, []);
    }),
    "a missing network fails ADD in Go's words": row(async (scene) => {
      scene.putPod("gone");
      const added = await scene.runForPod("ADD", master(scene), "testUID");
      assertEquals([added.exitCode, added.json.code], [1, 7]);
      assertMatch(
        added.json.msg,
        /^Multus: \[test\/testpod\/testUID\]: error loading k8s delegates k8s args: GetNetworkDelegates: failed getting the delegate: getKubernetesDelegate: cannot find a network-attachment-definition \(gone\) in namespace \(test\): /,
      );
    }),
  }),
  needsRoot,
);

/** Builds a row of a scene with two delegates whose pod nobody asks for before the status. */
function statusRow(
  run: (scene: MultusScene, keys: JsonObject) => Promise<void>,
): VersionRow {
  return row(async (scene) => {
    scene.addPlugin("linked", undefined, {
      ADD: `echo '${
        JSON.stringify({
          cniVersion: "1.0.0",
          interfaces: [{ name: "net1", sandbox: "/run/netns/a" }],
        })
      }'`,
    });
    const second = scene.conf("linked", "linked", { cniVersion: "1.0.0" });
    const delegates = [...master(scene).delegates, second];
    await run(scene, { delegates, runtimeConfig: HANDED });
  });
}

/** Asserts that everything was undone, and that only the scratch file remains. */
function assertUndone(scene: MultusScene): void {
  assertEquals(scene.story, [
    "weave-net ADD eth0",
    "linked ADD net1",
    "linked DEL net1",
    "weave-net DEL eth0",
  ]);
  assertEquals(scene.remembered, [CONTAINER]);
}

const LINKED = [{ name: "linked", interface: "net1", dns: {} }];

conformance(
  "multus pods",
  eachVersion({
    "53 an invalid kubeconfig fails ADD": row(async (scene) => {
      const kubeconfig = `${scene.hosts.directory}/no-kubeconfig`;
      const keys = { ...master(scene), kubeconfig };
      const added = await scene.runForPod("ADD", keys);
      assertEquals([added.exitCode, added.json.code], [1, 7]);
      assertEquals([scene.story, scene.remembered], [[], []]);
    }),
    "53 without a kubeconfig the delegates remain": row(async (scene) => {
      const keys = { ...master(scene), kubeconfig: "" };
      assertSuccess(await scene.runForPod("ADD", keys));
      assertEquals(scene.story, ["weave-net ADD eth0"]);
    }),
    "53 without kubeconfig and delegates: nothing": row(async (scene) => {
      const { exitCode, json } = await scene.runForPod("ADD", {
        kubeconfig: "",
      });
      assertEquals([exitCode, json.code], [1, 7]);
    }),
    "58 the status is written if the UID fits": statusRow(
      async (scene, keys) => {
        assertSuccess(await scene.runForPod("ADD", keys, "testUID"));
        assertEquals(scene.api.networkStatus("test", "testpod"), LINKED);
      },
    ),
    "58 the status is written without a UID": statusRow(async (scene, keys) => {
      assertSuccess(await scene.runForPod("ADD", keys));
      assertEquals(scene.api.networkStatus("test", "testpod"), LINKED);
    }),
    "58 another pod's status is not written": statusRow(async (scene, keys) => {
      const added = await scene.runForPod("ADD", keys, "otherUID");
      assertEquals([added.exitCode, added.json.code], [1, 4]);
      assertMatch(
        added.json.msg,
        /^Multus: \[test\/testpod\/otherUID\]: error setting the networks status: /,
      );
      assertStringIncludes(
        added.json.msg,
        'expected pod UID "otherUID" but got "testUID" from Kube API',
      );
      assertEquals(scene.api.networkStatus("test", "testpod"), undefined);
      assertUndone(scene);
    }),
    "58 an API that is not there fails ADD": statusRow(async (scene, keys) => {
      await scene.api.stop();
      // By default it would try for a minute.
      const added = await scene.runForPod("ADD", {
        ...keys,
        apiTimeoutSeconds: 5,
      });
      assertEquals([added.exitCode, added.json.code], [1, 11]);
      assertUndone(scene);
    }),
    "58 an invalid kubeconfig fails ADD": statusRow(async (scene, keys) => {
      const kubeconfig = `${scene.hosts.directory}/no-kubeconfig`;
      const added = await scene.runForPod("ADD", { ...keys, kubeconfig });
      assertEquals([added.exitCode, added.json.code], [1, 7]);
      assertUndone(scene);
    }),
    "58 no status without Kubernetes": statusRow(async (scene, keys) => {
      assertSuccess(
        await scene.runForPod("ADD", { ...keys, kubeconfig: "" }),
      );
      assertEquals(scene.api.requests, []);
    }),
  }, ["1.0.0"]),
  needsRoot,
);
