// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createInvoker } from "../../../cni/invoke/in_process.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { dispatch } from "../../../cni/skel.ts";
import { createHotPlug } from "../operations/hot_plug.ts";
import { multus } from "../plugin.ts";
import { findPlugin } from "../../registry.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { CONTAINER, MultusScene } from "../testing/scene.ts";
import { answerThick, type ThickOptions } from "./handler.ts";

const POD_ARGS =
  "IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=testpod;K8S_POD_UID=testUID";

/** Nothing may be run. */
const REFUSE: ThickOptions = {
  run: () => {
    throw new Error("a call was run");
  },
  overlay: {},
  env: {},
  isEnding: () => false,
};

interface Answer {
  readonly status: number;
  readonly type: string | null;
  readonly text: string;
}

async function ask(
  options: ThickOptions,
  path: string,
  body: unknown = null,
  method = "POST",
): Promise<Answer> {
  const init = method === "GET"
    ? { method }
    : { method, body: typeof body === "string" ? body : JSON.stringify(body) };
  const response = await answerThick(
    new Request(`http://dummy${path}`, init),
    options,
  );
  if (response === undefined) throw new Error(`${path} is not answered`);
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    text: await response.text(),
  };
}

/** multus behind the protocol. */
class Scene implements AsyncDisposable {
  readonly multus: MultusScene;
  readonly options: ThickOptions;

  private constructor(scene: MultusScene, overlay: JsonObject) {
    this.multus = scene;
    const { path } = scene.plugins.directory;
    this.options = {
      ...REFUSE,
      overlay: {
        cniDir: scene.cniDir,
        binDir: path,
        daemonSocketDir: `${scene.hosts.directory}/run`,
        definitionKeys: ["host-local.dataDir"],
        ...overlay,
      },
      env: { PATH: "/usr/bin:/bin", CNI_PATH: path },
      run: ({ env, stdin, hotPlug }) =>
        dispatch(hotPlug ? createHotPlug(hotPlug) : multus, {
          env,
          stdin: () => stdin,
          invoker: createInvoker(dispatch, findPlugin),
          hostNetns: scene.hosts.host.path,
        }),
    };
  }

  static async start(withPod = false): Promise<Scene> {
    const scene = await MultusScene.start();
    const { kubeconfig } = scene;
    return new Scene(scene, withPod ? { kubeconfig } : {});
  }

  send(
    path: string,
    command: string,
    config: JsonObject,
    { ifName = "eth0", ...more }: {
      ifName?: string;
      interfaceAttributes?: JsonObject;
    } = {},
  ): Promise<Answer> {
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: CONTAINER,
      CNI_NETNS: this.multus.hosts.sandbox.path,
      CNI_IFNAME: ifName,
      CNI_ARGS: POD_ARGS,
    };
    const bytes = new TextEncoder().encode(JSON.stringify(config));
    return ask(this.options, path, {
      env,
      config: bytes.toBase64(),
      ...more,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.multus[Symbol.asyncDispose]();
  }
}

/** Registers a test with plugins a and b. */
function test(
  name: string,
  run: (scene: Scene) => Promise<void>,
  withPod = false,
): void {
  rootTest(name, async () => {
    await using scene = await Scene.start(withPod);
    scene.multus.addPlugin("a", "1.1.1.2/24");
    scene.multus.addPlugin("b", "1.1.1.3/24");
    await run(scene);
  });
}

function refused(text: string, status = 400): Answer {
  return { status, type: "text/plain; charset=utf-8", text: `${text}\n` };
}

const DONE: Answer = { status: 200, type: null, text: "" };

Deno.test("answerThick() answers /healthz and /readyz by GET and POST", async () => {
  let isEnding = false;
  const options = { ...REFUSE, isEnding: () => isEnding };
  for (const method of ["GET", "POST"]) {
    assertEquals(await ask(options, "/healthz", null, method), DONE);
    assertEquals(await ask(options, "/readyz", null, method), DONE);
  }
  isEnding = true;
  assertEquals(await ask(options, "/healthz"), DONE);
  assertEquals((await ask(options, "/readyz")).status, 500);
});

Deno.test("answerThick() refuses other methods, and ignores other paths", async () => {
  const other = new Request("http://dummy/metrics");
  assertEquals(answerThick(other, REFUSE), undefined);
  for (const path of ["/cni", "/delegate"]) {
    assertEquals(
      await ask(REFUSE, path, null, "GET"),
      refused("Method not allowed", 405),
    );
  }
  for (const path of ["/healthz", "/readyz"]) {
    assertEquals(
      await ask(REFUSE, path, "", "PUT"),
      refused("Method not allowed", 405),
    );
  }
});

const CALL = "could not extract the CNI command args: ";
const POD = "could not extract the kubernetes runtime args: ";
const FULL = { CNI_CONTAINERID: "c", CNI_NETNS: "n", CNI_ARGS: POD_ARGS };

const REFUSED: readonly [string, Record<string, string>, string][] = [
  ["/cni", {}, `${CALL}unexpected or missing CNI_COMMAND`],
  ["/cni", { CNI_COMMAND: "ADD" }, `${CALL}missing CNI_CONTAINERID`],
  [
    "/cni",
    { CNI_COMMAND: "CHECK", CNI_CONTAINERID: "c" },
    `${CALL}missing CNI_NETNS`,
  ],
  [
    "/delegate",
    { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c", CNI_NETNS: "n" },
    `${CALL}missing CNI_ARGS`,
  ],
  [
    "/cni",
    { ...FULL, CNI_COMMAND: "ADD", CNI_ARGS: "IgnoreUnknown=1" },
    `${POD}missing K8S_POD_NAMESPACE`,
  ],
  [
    "/delegate",
    { ...FULL, CNI_COMMAND: "ADD", CNI_ARGS: "K8S_POD_NAMESPACE=a" },
    `${POD}missing K8S_POD_NAME`,
  ],
  [
    "/cni",
    { ...FULL, CNI_COMMAND: "ADD", CNI_ARGS: "K8S_POD_NAME=a=b" },
    `${POD}invalid CNI_ARG 'K8S_POD_NAME=a=b'`,
  ],
  [
    "/cni",
    {
      ...FULL,
      CNI_COMMAND: "ADD",
      CNI_ARGS: "K8S_POD_NAMESPACE=;K8S_POD_NAME=p",
    },
    "required CNI variable missing. pod name: p; pod namespace: ",
  ],
];

for (const [path, env, text] of REFUSED) {
  Deno.test(`answerThick() refuses ${path}: ${text}`, async () => {
    const answer = await ask(REFUSE, path, { env, config: "e30=" });
    assertEquals(answer, refused(text));
  });
}

for (
  const body of [
    "",
    "{",
    "null",
    "[]",
    { env: { CNI_COMMAND: 1 } },
    { env: { CNI_COMMAND: "STATUS" }, config: "?" },
    { env: { CNI_COMMAND: "STATUS" }, config: 5 },
    { env: { CNI_COMMAND: "STATUS" }, interfaceAttributes: { ips: "1.1.1.1" } },
    { env: { CNI_COMMAND: "STATUS" }, interfaceAttributes: { mac: 1 } },
    { env: { CNI_COMMAND: "STATUS" }, interfaceAttributes: { "cni-args": 1 } },
  ]
) {
  Deno.test(`answerThick() refuses the body ${JSON.stringify(body)}`, async () => {
    const { status, text } = await ask(REFUSE, "/cni", body);
    assertEquals(status, 400);
    assert(text.length > 1, "the reason");
  });
}

Deno.test("answerThick() answers 500 if the daemon itself fails", async () => {
  const env = { CNI_COMMAND: "STATUS" };
  const answer = await ask(REFUSE, "/cni", { env });
  assertEquals(answer, refused("a call was run", 500));
});

test("POST /cni returns the result in 1.1.0, whatever the configuration's version", async (scene) => {
  const conf = (cniVersion: string): JsonObject => ({
    ...scene.multus.conf("net", "multus"),
    cniVersion,
    delegates: [scene.multus.conf("first", "a")],
  });
  for (const cniVersion of ["0.2.0", "0.3.1", "1.0.0", "1.1.0"]) {
    assertEquals(await scene.send("/cni", "ADD", conf(cniVersion)), {
      status: 200,
      type: "application/json",
      text:
        '{"Result":{"cniVersion":"1.1.0","ips":[{"address":"1.1.1.2/24"}]}}',
    });
    assertEquals(await scene.send("/cni", "DEL", conf(cniVersion)), DONE);
  }
  assertEquals(await scene.send("/cni", "STATUS", conf("1.1.0")), DONE);
});

test("POST /cni returns an error document with the plugin's code, escaped as Go does", async (scene) => {
  const ADD = `echo '{"code":17,"msg":"<full> & done","details":"x"}'; exit 1`;
  scene.multus.addPlugin("a", undefined, { ADD });
  const answer = await scene.send("/cni", "ADD", {
    ...scene.multus.conf("net", "multus"),
    delegates: [scene.multus.conf("first", "a")],
  });
  assertEquals(answer, {
    status: 400,
    type: "application/json",
    text:
      '{"code":17,"msg":"[test/testpod/testUID:first]: error adding container ' +
      'to network \\"first\\": ' +
      '\\u003cfull\\u003e \\u0026 done","details":"x"}',
  });
});

test("POST /cni detaches without CNI_NETNS and CNI_ARGS", async (scene) => {
  const conf = {
    ...scene.multus.conf("net", "multus"),
    delegates: [scene.multus.conf("first", "a")],
  };
  assertEquals((await scene.send("/cni", "ADD", conf)).status, 200);
  const config = new TextEncoder().encode(JSON.stringify(conf)).toBase64();
  const env = { CNI_COMMAND: "DEL", CNI_CONTAINERID: CONTAINER };
  assertEquals(await ask(scene.options, "/cni", { env, config }), DONE);
  assertEquals(scene.multus.story, ["a ADD eth0", "a DEL eth0"]);
});

test("POST /cni takes the daemon's keys, whatever their case", async (scene) => {
  const conf = {
    ...scene.multus.conf("net", "multus"),
    BINDIR: "/nowhere",
    delegates: [scene.multus.conf("first", "a")],
  };
  assertEquals((await scene.send("/cni", "ADD", conf)).status, 200);
});

const NET1 = { ifName: "net1" };

test(
  "POST /delegate attaches a running pod to a network, and detaches it",
  async (scene) => {
    const { multus: node } = scene;
    node.putPod();
    const conf = node.conf("second", "b", {
      capabilities: { ips: true },
      // What pods may request, beside the capability.
      args: { cni: { vlan: 1 } },
    });
    const interfaceAttributes = {
      ips: ["1.1.1.9/24", "1.1.1.10"],
      mac: "02:00:00:00:00:01",
      "cni-args": { vlan: 5 },
    };
    const options = { ...NET1, interfaceAttributes };
    assertEquals(await scene.send("/delegate", "ADD", conf, options), {
      status: 200,
      type: "application/json",
      text:
        '{"Result":{"cniVersion":"1.1.0","ips":[{"address":"1.1.1.3/24"}]}}',
    });
    const added = node.call("b", "ADD");
    assertStringIncludes(
      added?.args ?? "",
      "MAC=02:00:00:00:00:01;IP=1.1.1.9/24,1.1.1.10",
    );
    assertEquals(added?.stdin["args"], { cni: { vlan: 5 } });
    assertEquals(added?.stdin["runtimeConfig"], {
      ips: interfaceAttributes.ips,
    });
    assertEquals(
      node.api.events.map(({ reason, message }) => [reason, message]),
      [["AddedInterface", "Add net1 [1.1.1.3/24] from second"]],
    );
    assertEquals(await scene.send("/delegate", "CHECK", conf, NET1), DONE);
    assertEquals(await scene.send("/delegate", "DEL", conf, NET1), DONE);
    assertEquals(node.story, ["b ADD net1", "b CHECK net1", "b DEL net1"]);
    assertEquals(node.remembered, []);
  },
  true,
);

test("POST /delegate reports a failed DEL", async (scene) => {
  scene.multus.addPlugin("b", "1.1.1.3/24", { DEL: "echo no >&2; exit 1" });
  const conf = scene.multus.conf("second", "b");
  await scene.send("/delegate", "ADD", conf, NET1);
  const { status, text } = await scene.send("/delegate", "DEL", conf, NET1);
  assertEquals(status, 400);
  assertStringIncludes(text, "failed (delete)");
});

test("POST /delegate creates nothing if it refuses an attachment", async (scene) => {
  const { multus: node } = scene;
  runIn(node.hosts.sandbox, "ip", "link", "add", "net1", "type", "veth");
  const conf = node.conf("second", "b");
  const add = async (
    ifName: string,
    interfaceAttributes: JsonObject = {},
  ): Promise<string> => {
    const options = { ifName, interfaceAttributes };
    const answer = await scene.send("/delegate", "ADD", conf, options);
    assertEquals(answer.status, 400);
    return JSON.parse(answer.text).msg;
  };
  assertEquals(
    [
      await add("net1"),
      await add("net2", { mac: "no" }),
      await add("net2", { ips: ["1.1.1"] }),
    ],
    [
      'DelegateAdd: cannot set "b" interface name to "net1": ' +
      "validateIfName: interface name net1 already exists",
      'DelegateAdd: failed to parse mac address "no"',
      'DelegateAdd: failed to parse IP address "1.1.1"',
    ],
  );
  assertEquals([node.story, node.remembered], [[], []]);
});

test(
  "POST /delegate attaches no pod that the API does not have",
  async (scene) => {
    const conf = scene.multus.conf("second", "b");
    const { status, text } = await scene.send("/delegate", "ADD", conf, NET1);
    const msg = "pod not found during Multus GetPod";
    const details = "test/testpod";
    assertEquals([status, JSON.parse(text)], [400, { code: 3, msg, details }]);
    // Its networks must go nevertheless.
    assertEquals(await scene.send("/delegate", "DEL", conf, NET1), DONE);
  },
  true,
);

test("POST /delegate lets DEL of the pod detach the network", async (scene) => {
  const { multus: node } = scene;
  const delegates = [node.conf("first", "a"), node.conf("other", "a")];
  const conf = { ...node.conf("net", "multus"), delegates };
  const extra = node.conf("second", "b");
  const third = node.conf("third", "b");
  await scene.send("/cni", "ADD", conf);
  await scene.send("/delegate", "ADD", extra, { ifName: "hot1" });
  await scene.send("/delegate", "ADD", third, { ifName: "hot2" });
  // A network of the pod's ADD may be detached too.
  await scene.send("/delegate", "DEL", node.conf("other", "a"), NET1);
  assertEquals(await scene.send("/cni", "DEL", conf), DONE);
  assertEquals(node.story, [
    "a ADD eth0",
    "a ADD net1",
    "b ADD hot1",
    "b ADD hot2",
    "a DEL net1",
    "b DEL hot2",
    "b DEL hot1",
    "a DEL eth0",
  ]);
  assertEquals(node.remembered, []);
});

test("POST /delegate does not undo an earlier ADD of an attachment without a link", async (scene) => {
  const { hosts, plugins } = scene.multus;
  const name = "host-local";
  Deno.symlinkSync(
    `${hosts.path}/${name}`,
    `${plugins.directory.path}/${name}`,
  );
  const ipam = hosts.hostLocal("10.1.2.0/24");
  const conf = scene.multus.conf("net1", name, { ipam });
  const first = await scene.send("/delegate", "ADD", conf, NET1);
  assertEquals(first.status, 200, first.text);
  const second = await scene.send("/delegate", "ADD", conf, NET1);
  assertEquals([second.status, hosts.leases()], [400, ["10.1.2.2"]]);
  assertEquals(await scene.send("/delegate", "DEL", conf, NET1), DONE);
  assertEquals(hosts.leases(), []);
});

test("POST /delegate undoes a failed ADD, and forgets the network", async (scene) => {
  const { multus: node } = scene;
  const conf = {
    ...node.conf("net", "multus"),
    delegates: [node.conf("first", "a")],
  };
  await scene.send("/cni", "ADD", conf);
  const before = Deno.readTextFileSync(node.scratchFile);
  node.addPlugin("b", undefined, { ADD: "exit 1" });
  const hot = await scene.send("/delegate", "ADD", node.conf("s", "b"), NET1);
  assertEquals(hot.status, 400);
  assertEquals(Deno.readTextFileSync(node.scratchFile), before);
  assertEquals(node.story, ["a ADD eth0", "b ADD net1", "b DEL net1"]);
});
