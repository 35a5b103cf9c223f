// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * `multus-shim` and thick multus's protocol between whole executables: ours with
 * ours, ours with the Go version's daemon, the Go version's shim with our daemon.
 *
 * @module
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import type { Needs } from "../../../testing/capabilities.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { FakeDaemon } from "../../../tests/_harness/unix_server.ts";
import {
  BIN,
  type HostOutput,
  type HostPod,
  MultusHost,
  onHost,
} from "../testing/host.ts";
import {
  GO_MULTUS,
  needsGoMultus,
  type Reply,
  ThickDaemon,
} from "../testing/thick_daemon.ts";

const OURS = `${BIN}/multus-shim`;
const REMOTE = `${BIN}/remote`;
const GO = `${GO_MULTUS}/multus-shim`;

type Start = (host: MultusHost) => Promise<ThickDaemon>;

/** A node with a daemon. */
class Scene {
  readonly host: MultusHost;
  readonly daemon: ThickDaemon;

  constructor(host: MultusHost, daemon: ThickDaemon) {
    this.host = host;
    this.daemon = daemon;
  }

  /** Has the daemon run a call, through a shim. */
  call(
    shim: string,
    command: string,
    pod: HostPod,
    keys: JsonObject = {},
  ): Promise<HostOutput> {
    return this.host.call(command, pod, {
      command: [shim],
      keys: {
        daemonSocketDir: this.daemon.socketDir,
        // The plugin remote.
        socket: `${this.daemon.socketDir}/multus.sock`,
        ...keys,
      },
    });
  }

  async succeed(...call: Parameters<Scene["call"]>): Promise<string> {
    const { code, stdout } = await this.call(...call);
    assertEquals(code, 0, stdout);
    return stdout;
  }

  /** Sends a request about a pod. */
  ask(
    path: string,
    command: string,
    pod: HostPod,
    config: JsonObject,
    more: JsonObject = {},
  ): Promise<Reply> {
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: pod.containerId,
      CNI_NETNS: pod.sandbox.path,
      CNI_IFNAME: "hot1",
      CNI_ARGS: `K8S_POD_NAMESPACE=default;K8S_POD_NAME=${pod.name};` +
        `K8S_POD_UID=${pod.uid}`,
    };
    const bytes = new TextEncoder().encode(JSON.stringify(config));
    return this.daemon.ask(path, { env, config: bytes.toBase64(), ...more });
  }
}

/** Go's daemon keeps its token from a server without TLS. */
const TLS = { transport: "https" } as const;

/** Registers a test on a node with a daemon. */
function test(
  name: string,
  start: Start,
  run: (scene: Scene) => Promise<void>,
  ...needs: Needs[]
): void {
  Deno.test({
    ...onHost(name, ...needs),
    async fn(): Promise<void> {
      await using host = await MultusHost.start(TLS);
      await using daemon = await start(host);
      await run(new Scene(host, daemon));
    },
  });
}

/** Replaces what differs between two pods. */
function normalize(text: string): string {
  return text
    .replaceAll(/([\da-f]{2}:){5}[\da-f]{2}/g, "MAC")
    .replaceAll(/\/proc\/\d+\/fd\/\d+/g, "NETNS")
    .replaceAll(/(10\.\d+\.\d+)\.\d+/g, "$1.N")
    .replaceAll(/veth[\da-f]+/g, "VETH");
}

const VERSIONS = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/** The life of a pod through a shim, and what is left of it. */
async function live(scene: Scene, shim: string): Promise<void> {
  const { host } = scene;
  const pod = host.addPod("web", { networks: "green" });
  for (const cniVersion of VERSIONS) {
    const keys = { cniVersion };
    const result = JSON.parse(await scene.succeed(shim, "ADD", pod, keys));
    assertEquals(result.cniVersion, cniVersion);
    assertEquals(host.interfaces(pod), ["eth0", "lo", "net1"]);
    if (cniVersion !== "0.3.1") {
      assertEquals(await scene.succeed(shim, "CHECK", pod, keys), "");
    }
    assertEquals(await scene.succeed(shim, "DEL", pod, keys), "");
    assertEquals(host.remains(), []);
  }
  const keys = { cniVersion: "1.1.0" };
  assertEquals(await scene.succeed(shim, "STATUS", pod, keys), "");
}

test(
  "multus-shim runs calls through our daemon",
  ThickDaemon.start,
  async (scene) => {
    await live(scene, OURS);
  },
);

test(
  "multus-shim runs calls through Go multus' daemon",
  ThickDaemon.startGo,
  (scene) => live(scene, OURS),
  needsGoMultus,
);

test(
  "Go multus-shim runs calls through our daemon",
  ThickDaemon.start,
  (scene) => live(scene, GO),
  needsGoMultus,
);

test(
  "remote runs calls through our daemon",
  ThickDaemon.start,
  (scene) => live(scene, REMOTE),
);

test(
  "remote runs calls through Go multus' daemon, and reports its errors",
  ThickDaemon.startGo,
  async (scene) => {
    await live(scene, REMOTE);
    const lost = scene.host.addPod("lost", { networks: "nothing" });
    const { code, json } = await scene.call(REMOTE, "ADD", lost);
    assertEquals([code, json.code], [1, 100]);
    assertMatch(`${json.msg} ${json.details}`, /400.*ERRORED: .*nothing/s);
    await scene.succeed(REMOTE, "DEL", lost);
    assertEquals(scene.host.remains(), []);
  },
  needsGoMultus,
);

for (
  const [whose, start] of [
    ["our", ThickDaemon.start],
    ["Go multus", ThickDaemon.startGo],
  ] as const
) {
  test(
    `both shims print the same with ${whose} daemon`,
    start,
    async (scene) => {
      const pod = scene.host.addPod("web", { networks: "green" });
      for (const cniVersion of VERSIONS) {
        const printed: string[] = [];
        for (const shim of [OURS, GO]) {
          const keys = { cniVersion };
          printed.push(normalize(await scene.succeed(shim, "ADD", pod, keys)));
          await scene.succeed(shim, "DEL", pod, keys);
        }
        assertEquals(printed[0], printed[1]);
      }
    },
    needsGoMultus,
  );
}

test(
  "multus runs calls through Go multus' daemon, and reports its errors",
  ThickDaemon.startGo,
  async (scene) => {
    const pod = scene.host.addPod("web", { networks: "green" });
    const multus = `${BIN}/multus`;
    await scene.succeed(multus, "ADD", pod);
    // Only the Go version leaves out the key for the network that wrote the file.
    const scratch = `${scene.host.cniDir}/${pod.containerId}`;
    assertEquals(
      Deno.readTextFileSync(scratch).includes("multusNetwork"),
      false,
    );
    await scene.succeed(multus, "DEL", pod);
    assertEquals(scene.host.remains(), []);
    const lost = scene.host.addPod("lost", { networks: "nothing" });
    const { code, json } = await scene.call(multus, "ADD", lost);
    assertEquals([code, json.code], [1, 999]);
    assertMatch(json.msg, /status 400: 'ContainerID:.* ERRORED: .*nothing/);
  },
  needsGoMultus,
);

Deno.test({
  ...onHost("pods are detached by the other version's daemon", needsGoMultus),
  async fn(t): Promise<void> {
    const { start, startGo } = ThickDaemon;
    await t.step("ours", () => takeOver(startGo, start));
    await t.step("Go multus", () => takeOver(start, startGo));
  },
});

/** Replaces a node's daemon while two pods run, each detached by another shim. */
async function takeOver(before: Start, after: Start): Promise<void> {
  await using host = await MultusHost.start(TLS);
  const pods = ["web", "lost"].map((name) =>
    host.addPod(name, { networks: "green" })
  );
  const keys = { cniVersion: "1.0.0" };
  {
    await using daemon = await before(host);
    const scene = new Scene(host, daemon);
    for (const pod of pods) await scene.succeed(GO, "ADD", pod, keys);
  }
  await using daemon = await after(host);
  const scene = new Scene(host, daemon);
  for (const [index, pod] of pods.entries()) {
    const shim = index === 0 ? GO : OURS;
    assertEquals(host.interfaces(pod), ["eth0", "lo", "net1"]);
    assertEquals(await scene.succeed(shim, "CHECK", pod, keys), "");
    assertEquals(await scene.succeed(shim, "DEL", pod, keys), "");
    assertEquals(host.interfaces(pod), ["lo"]);
  }
  assertEquals(host.remains(), []);
}

/** Makes a directory with only one of the daemon's sockets. */
function directoryWith(scene: Scene, socket: string): string {
  const directory = `${scene.host.hosts.directory}/only-${socket}`;
  Deno.mkdirSync(directory);
  Deno.symlinkSync(
    `${scene.daemon.socketDir}/${socket}`,
    `${directory}/${socket}`,
  );
  return directory;
}

test(
  "multus-shim prints the same over either socket of the daemon",
  ThickDaemon.start,
  async (scene) => {
    const { host } = scene;
    const web = host.addPod("web", { networks: "green" });
    const lost = host.addPod("lost", { networks: "nothing" });
    const [own, http] = ["daemon.sock", "multus.sock"].map((socket) =>
      directoryWith(scene, socket)
    );
    const print = async (daemonSocketDir = ""): Promise<string[]> => {
      const printed: string[] = [];
      const call = async (
        command: string,
        pod: HostPod,
        keys: JsonObject,
        env: Record<string, string> = {},
      ): Promise<void> => {
        const { code, stdout, stderr } = await host.call(command, pod, {
          command: [OURS],
          keys: { daemonSocketDir, ...keys },
          env,
        });
        printed.push(normalize(`${command} ${code} ${stdout} ${stderr}`));
      };
      for (const cniVersion of VERSIONS) {
        await call("ADD", web, { cniVersion });
        if (cniVersion !== "0.3.1") await call("CHECK", web, { cniVersion });
        await call("DEL", web, { cniVersion });
        assertEquals(host.remains(), []);
        await call("ADD", lost, { cniVersion });
        await call("DEL", lost, { cniVersion });
      }
      await call("STATUS", web, { cniVersion: "1.1.0" });
      await call("GC", web, {
        cniVersion: "1.1.0",
        "cni.dev/valid-attachments": [],
      });
      return printed;
    };
    assertEquals(await print(own), await print(http));
  },
);

test(
  "multus-shim calls over HTTP if the daemon declines the call",
  ThickDaemon.start,
  async (scene) => {
    const { host } = scene;
    await using refusing = new FakeDaemon(({ say }) =>
      say({ declined: "another namespace" })
    );
    const daemonSocketDir = directoryWith(scene, "multus.sock");
    Deno.symlinkSync(refusing.path, `${daemonSocketDir}/daemon.sock`);
    const pod = host.addPod("web", { networks: "green" });
    for (const command of ["ADD", "CHECK", "DEL"]) {
      await scene.succeed(OURS, command, pod, { daemonSocketDir });
    }
    assertEquals(host.remains(), []);
    const names = refusing.requests.map(({ name }) => name);
    assertEquals(names, ["multus-shim", "multus-shim", "multus-shim"]);
  },
);

test(
  "multus-shim attaches no pod twice, and detaches pods that the daemon did not detach",
  ThickDaemon.start,
  async (scene) => {
    const { host } = scene;
    await using failing = new FakeDaemon(({ say }) => {
      const { env } = failing.requests.at(-1) ?? {};
      if (env?.["CNI_COMMAND"] === "ADD") return; // the connection ends
      return say({ declined: "its DEL failed" });
    });
    const daemonSocketDir = directoryWith(scene, "multus.sock");
    Deno.symlinkSync(failing.path, `${daemonSocketDir}/daemon.sock`);
    const pod = host.addPod("web", { networks: "green" });
    const { code, json } = await scene.call(OURS, "ADD", pod, {
      daemonSocketDir,
    });
    assertEquals([code, json.code], [1, 11]);
    assertEquals(host.interfaces(pod), ["lo"]);
    await scene.succeed(OURS, "ADD", pod);
    await scene.succeed(OURS, "DEL", pod, { daemonSocketDir });
    assertEquals(host.remains(), []);
  },
);

test(
  "multus-shim waits for the daemon on ADD, but not on DEL",
  ThickDaemon.start,
  async (scene) => {
    const { host } = scene;
    const pod = host.addPod("web");
    const daemonSocketDir = `${host.hosts.directory}/later`;
    const call = { command: [OURS], keys: { daemonSocketDir } };
    const adding = host.start("ADD", pod, call);
    // DEL does not wait. There is no record of this container.
    const other = host.addPod("other");
    assertEquals((await host.call("DEL", other, call)).code, 0);
    assertEquals(host.interfaces(pod), ["lo"]);
    Deno.symlinkSync(scene.daemon.socketDir, daemonSocketDir);
    const { code, stdout } = await adding.output;
    assertEquals(code, 0, stdout);
    assertEquals(host.interfaces(pod), ["eth0", "lo"]);
  },
);

test(
  "multus-shim detaches a pod without the daemon",
  ThickDaemon.start,
  async (scene) => {
    const { host, daemon } = scene;
    const pod = host.addPod("web", { networks: "green" });
    await scene.succeed(OURS, "ADD", pod);
    await daemon[Symbol.asyncDispose]();
    await scene.succeed(OURS, "DEL", pod);
    assertEquals(host.remains(), []);
  },
);

test(
  "multus-shim detaches a pod whose DEL the daemon declines",
  ThickDaemon.start,
  async (scene) => {
    const { host } = scene;
    const pod = host.addPod("web");
    await scene.succeed(OURS, "ADD", pod);
    const socketDir = `${host.hosts.directory}/refuses`;
    Deno.mkdirSync(socketDir);
    const asked: string[] = [];
    await using _server = Deno.serve({
      path: `${socketDir}/multus.sock`,
      onListen: () => {},
    }, ({ url }) => {
      const { pathname } = new URL(url);
      asked.push(pathname);
      return new Response("no\n", { status: pathname === "/cni" ? 400 : 200 });
    });
    await scene.succeed(OURS, "DEL", pod, { daemonSocketDir: socketDir });
    assertEquals([asked, host.remains()], [["/healthz", "/cni"], []]);
  },
);

test(
  "multus-shim reports errors with the daemon's code",
  ThickDaemon.start,
  async (scene) => {
    const pod = scene.host.addPod("web", { networks: "nothing" });
    const { code, json } = await scene.call(OURS, "ADD", pod);
    assertEquals([code, json.code, json.cniVersion], [1, 7, "1.0.0"]);
    assertMatch(json.msg, /nothing/);
    assertEquals(scene.host.remains(), []);
  },
);

/** Mistakes of a call that multus-shim itself finds. */
const WRONG: readonly [what: string, keys: JsonObject, code: number][] = [
  ["a network without a name", { name: "" }, 7],
  ["an unknown version", { cniVersion: "9.9.9" }, 1],
];

for (const [what, keys, code] of WRONG) {
  test(`multus-shim refuses ${what}`, ThickDaemon.start, async (scene) => {
    const pod = scene.host.addPod("web");
    const { json } = await scene.call(OURS, "ADD", pod, keys);
    assertEquals(json.code, code);
  });
}

const HOT: JsonObject = {
  cniVersion: "1.0.0",
  name: "hot",
  type: "bridge",
  bridge: "br-hot",
  capabilities: { ips: true, mac: true },
  ipam: { type: "static" },
};

/** The life of a hot-plugged interface; returns all responses. */
async function hotPlug(scene: Scene): Promise<string[]> {
  const { host } = scene;
  const pod = host.addPod("web");
  await scene.succeed(OURS, "ADD", pod);
  const replies: Reply[] = [];
  const ask = async (
    command: string,
    config: JsonObject,
    more?: JsonObject,
  ): Promise<void> => {
    replies.push(await scene.ask("/delegate", command, pod, config, more));
  };
  const interfaceAttributes = {
    ips: ["10.77.0.5/24"],
    mac: "02:00:00:00:00:07",
    "cni-args": null,
  };
  await ask("ADD", HOT, { interfaceAttributes });
  assertEquals(replies[0]?.status, 200, replies[0]?.text);
  assertEquals(host.interfaces(pod), ["eth0", "hot1", "lo"]);
  await ask("CHECK", HOT);
  await ask("DEL", HOT);
  assertEquals(host.interfaces(pod), ["eth0", "lo"]);
  await ask("STATUS", { ...HOT, cniVersion: "1.1.0" });
  await scene.succeed(OURS, "DEL", pod);
  assertEquals(host.remains(), []);
  return replies.map((reply) => normalize(JSON.stringify(reply)));
}

test(
  "POST /delegate changes the interfaces of a running pod",
  ThickDaemon.start,
  async (scene) => {
    await hotPlug(scene);
  },
);

Deno.test({
  ...onHost("POST /delegate responds as Go multus does", needsGoMultus),
  async fn(): Promise<void> {
    const answers: string[][] = [];
    for (const start of [ThickDaemon.start, ThickDaemon.startGo]) {
      await using host = await MultusHost.start(TLS);
      await using daemon = await start(host);
      answers.push(await hotPlug(new Scene(host, daemon)));
    }
    assertEquals(withoutType(answers[0]), withoutType(answers[1]));
  },
});

/** The Go version sets the type of a success too late. */
function withoutType(replies: readonly string[] = []): string[] {
  return replies.map((reply) => reply.replace(/"type":"[^"]*",?/, ""));
}

const POD_ARGS = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=u";
const FULL = { CNI_CONTAINERID: "c", CNI_NETNS: "n", CNI_ARGS: POD_ARGS };

/** Requests that are refused before anything is run. */
const REFUSED: readonly [
  path: string,
  env: Record<string, string> | undefined,
  method?: string,
][] = [
  ["/cni", undefined, "GET"],
  ["/delegate", undefined, "GET"],
  ["/healthz", undefined, "PUT"],
  ["/elsewhere", undefined],
  ["/cni", {}],
  ["/delegate", {}],
  ["/cni", { CNI_COMMAND: "ADD" }],
  ["/cni", { CNI_COMMAND: "CHECK", CNI_CONTAINERID: "c" }],
  ["/cni", { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c", CNI_NETNS: "n" }],
  ["/cni", { ...FULL, CNI_COMMAND: "ADD", CNI_ARGS: "IgnoreUnknown=1" }],
  ["/cni", { ...FULL, CNI_COMMAND: "ADD", CNI_ARGS: "" }],
  ["/delegate", { ...FULL, CNI_COMMAND: "DEL", CNI_ARGS: "K8S_POD_NAME=a" }],
  [
    "/delegate",
    { ...FULL, CNI_COMMAND: "ADD", CNI_ARGS: "K8S_POD_NAMESPACE=a" },
  ],
];

Deno.test({
  ...onHost(
    "refused requests get the same bytes as from Go multus",
    needsGoMultus,
  ),
  async fn(): Promise<void> {
    await using host = await MultusHost.start(TLS);
    await using ours = await ThickDaemon.start(host);
    await using go = await ThickDaemon.startGo(host);
    for (const [path, env, method] of REFUSED) {
      const body = { env: env ?? {}, config: "e30=" };
      const expected = await go.ask(path, body, method);
      const what = `${method ?? "POST"} ${path} ${JSON.stringify(env)}`;
      assertEquals(await ours.ask(path, body, method), expected, what);
    }
    for (const path of ["/healthz", "/readyz"]) {
      for (const method of ["GET", "POST"]) {
        const { status, text } = await ours.ask(path, null, method);
        assertEquals([status, text], [200, ""]);
        const expected = await go.ask(path, null, method);
        assertEquals([expected.status, expected.text], [200, ""]);
      }
    }
  },
});

test(
  "POST /cni is undone if its caller disconnects",
  ThickDaemon.start,
  async (scene) => {
    const { host } = scene;
    const pod = host.addPod("web");
    const marker = `${host.hosts.directory}/running`;
    const slow = `${host.hosts.directory}/slow`;
    Deno.mkdirSync(slow);
    Deno.writeTextFileSync(
      `${slow}/slow`,
      `#!/bin/sh
if [ "$CNI_COMMAND" = ADD ]; then touch ${marker}; sleep 100; fi
if [ "$CNI_COMMAND" = DEL ]; then touch ${marker}.undone; fi
`,
      { mode: 0o755 },
    );
    const call = host.start("ADD", pod, {
      command: [OURS],
      keys: {
        daemonSocketDir: scene.daemon.socketDir,
        delegates: [{ cniVersion: "1.0.0", name: "slow", type: "slow" }],
      },
      env: { CNI_PATH: slow },
    });
    await eventually("the plugin runs", () => exists(marker));
    call.kill();
    await eventually("ADD is undone", () => exists(`${marker}.undone`));
    await call.output;
  },
);

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}
