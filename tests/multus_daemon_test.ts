/**
 * multus with `multus daemon` on its node, both as executables: pods are
 * attached by it, and without it whatever becomes of it.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import type { JsonObject } from "../cni/json.ts";
import { eventually } from "./_harness/eventually.ts";
import { MultusDaemon } from "./_harness/multus_daemon.ts";
import {
  BIN,
  type HostOutput,
  type HostPod,
  MultusHost,
  onHost,
} from "./_harness/multus_host.ts";

/** What nothing may take, however slow the machine is, in ms. */
const DEADLINE_MS = 60_000;

const EVENTS = "/api/v1/namespaces/default/events";

/** A node with a daemon. */
class Scene implements AsyncDisposable {
  readonly host: MultusHost;
  readonly daemon: MultusDaemon;
  readonly #others: AsyncDisposable[] = [];

  private constructor(host: MultusHost, daemon: MultusDaemon) {
    this.host = host;
    this.daemon = daemon;
  }

  static async start(): Promise<Scene> {
    const host = await MultusHost.start();
    return new Scene(host, await MultusDaemon.start(host));
  }

  /** Starts another one in the same place. */
  async startAnother(): Promise<MultusDaemon> {
    const daemon = await MultusDaemon.start(this.host);
    this.#others.push(daemon);
    return daemon;
  }

  /** Creates a pod with network `green`, of which the daemon knows. */
  async addPod(name: string): Promise<HostPod> {
    const pod = this.host.addPod(name, { networks: "green" });
    await this.waitForMemory(
      `/api/v1/namespaces/default/pods/${name}`,
      pod.uid,
      (text) => text.includes(pod.uid),
    );
    return pod;
  }

  /** Waits until the daemon remembers an object so. */
  async waitForMemory(
    path: string,
    uid: string,
    isSo: (text: string) => boolean,
  ): Promise<void> {
    const headers = [
      ["cache-control", "max-stale"],
      ["multus-pod-uid", uid],
    ] as const;
    await eventually(`the daemon knows ${path}`, async () => {
      const answer = await this.daemon.ask({ path, headers });
      return answer.headers.get("multus-origin") === "cache" &&
        isSo(answer.text);
    });
  }

  /** Calls multus, which shall use the daemon. */
  call(command: string, pod: HostPod, keys: JsonObject = {}): Promise<
    HostOutput
  > {
    const { socketDir: daemonSocketDir } = this.daemon;
    return this.host.call(command, pod, { keys: { daemonSocketDir, ...keys } });
  }

  /** Calls multus, which must succeed and say nothing on stderr. */
  async succeed(
    command: string,
    pod: HostPod,
    keys: JsonObject = {},
  ): Promise<HostOutput> {
    const output = await this.call(command, pod, keys);
    const { code, stdout, stderr } = output;
    assertEquals([code, stderr], [0, ""], `${command}: ${stdout}`);
    return output;
  }

  /** Attaches a pod and looks at what came of it, and detaches it. */
  async attachAndDetach(pod: HostPod): Promise<number> {
    const { ms } = await this.succeed("ADD", pod);
    this.assertAttached(pod);
    await this.succeed("DEL", pod);
    assertEquals(this.host.leftoversOf(pod), []);
    return ms;
  }

  assertAttached(pod: HostPod): void {
    assertEquals(this.host.interfaces(pod), ["eth0", "lo", "net1"]);
    const names = this.host.status(pod)
      .map(({ name }: { name: string }) => name);
    assertEquals(names, ["pods", "default/green"]);
  }

  /** What the daemon was asked about a pod and its network, and where answers were from. */
  answersSince(count: number): string[] {
    return this.daemon.answers.slice(count).map(({ method, path, origin }) =>
      `${method} ${path.replace(/^.*\/(?=[^/]+\/[^/]+$)/, "")} ${origin}`
    ).sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const other of this.#others) await other[Symbol.asyncDispose]();
    await this.daemon[Symbol.asyncDispose]();
    await this.host[Symbol.asyncDispose]();
  }
}

Deno.test(
  onHost("the daemon answers all that multus asks for a pod"),
  async () => {
    await using scene = await Scene.start();
    const { host: { api }, daemon } = scene;
    const pod = await scene.addPod("web");
    const [count, connections] = [daemon.answers.length, api.connections];
    api.clearRequests();
    await scene.succeed("ADD", pod);
    scene.assertAttached(pod);
    await eventually("the log tells", () => daemon.answers.length >= count + 5);
    // On a slow machine, events are queued.
    const answers = scene.answersSince(count)
      .map((answer) => answer.replace(/(events) (api|queue)$/, "$1"));
    assertEquals(answers, [
      "GET network-attachment-definitions/green cache",
      "GET pods/web cache",
      "PATCH web/status api",
      "POST default/events",
      "POST default/events",
    ]);
    await eventually("events arrive", () => api.events.length === 2);
    assertEquals(api.requestsOf("GET"), []);
    // One for each request that was under way at a time, at most.
    assert(api.connections <= connections + 3, String(api.connections));
    await scene.succeed("CHECK", pod, { prevResult: {} });
    await scene.succeed("DEL", pod);
    assertEquals(scene.host.leftovers(), []);
  },
);

Deno.test(
  onHost("the daemon helps a plugin whose kubeconfig is of no use"),
  async () => {
    await using scene = await Scene.start();
    const pod = await scene.addPod("web");
    const keys = { kubeconfig: "/nowhere/at/all" };
    await scene.succeed("ADD", pod, keys);
    scene.assertAttached(pod);
    await scene.daemon.kill();
    await scene.succeed("DEL", pod, keys);
    const output = await scene.call("ADD", pod, keys);
    assertEquals([output.code, output.json.code], [1, 7], output.stdout);
    assertStringIncludes(output.json.msg, "/nowhere/at/all");
  },
);

Deno.test(onHost("multus does without a daemon that was killed"), async () => {
  await using scene = await Scene.start();
  const pod = await scene.addPod("web");
  await scene.daemon.kill();
  assert((await Deno.lstat(scene.daemon.socketPath)).isSocket, "it is stale");
  const { connections } = scene.host.api;
  await scene.attachAndDetach(pod);
  assert(scene.host.api.connections > connections);
  const another = await scene.startAnother();
  const { length } = another.answers;
  await scene.attachAndDetach(pod);
  await eventually("it was asked", () => another.answers.length > length);
});

Deno.test(
  onHost("DEL asks the daemon if nothing on disk tells what to detach"),
  async () => {
    await using scene = await Scene.start();
    const { host } = scene;
    const pod = await scene.addPod("web");
    await scene.succeed("ADD", pod);
    await Deno.remove(host.cniDir, { recursive: true });
    host.api.clearRequests();
    await scene.succeed("DEL", pod);
    assertEquals(host.leftoversOf(pod), []);
    assertEquals(host.api.requestsOf("GET"), []);
  },
);

Deno.test(
  onHost("multus does without a daemon that does not move"),
  async () => {
    await using scene = await Scene.start();
    const before = await scene.addPod("before");
    const stopped = await scene.addPod("stopped");
    await scene.attachAndDetach(before);
    scene.daemon.signal("SIGSTOP");
    const ms = await scene.attachAndDetach(stopped);
    assert(ms < DEADLINE_MS, `${ms} ms`);
    scene.daemon.signal("SIGCONT");
    await scene.attachAndDetach(before);
  },
);

Deno.test(
  onHost("multus finishes an ADD whose daemon goes away meanwhile"),
  async (t) => {
    const ends: [string, (daemon: MultusDaemon) => Promise<unknown>][] = [
      ["by SIGKILL", (daemon) => daemon.kill()],
      ["by SIGTERM", (daemon) => daemon.end()],
      ["by SIGSTOP", async (daemon) => await daemon.signal("SIGSTOP")],
    ];
    for (const [name, end] of ends) {
      await t.step(name, async () => {
        await using scene = await Scene.start();
        const { api } = scene.host;
        const pod = await scene.addPod("web");
        // Longer than the daemon waits for what is under way in the end.
        api.fault({ method: "PATCH", delayMs: 700, times: 1 });
        const adding = scene.succeed("ADD", pod);
        await eventually(
          "status write begun",
          () => api.requestsOf("PATCH").length === 1,
        );
        await end(scene.daemon);
        await adding;
        scene.assertAttached(pod);
        await scene.succeed("DEL", pod);
        assertEquals(scene.host.leftovers(), []);
      });
    }
  },
);

Deno.test(onHost("the daemon ends, and takes its socket along"), async () => {
  await using scene = await Scene.start();
  await scene.host.api.blackhole();
  const { code, tookMs } = await scene.daemon.end();
  assertEquals(code, 0, scene.daemon.log);
  assert(tookMs < DEADLINE_MS, `${tookMs} ms`);
  assertEquals(listFolder(scene.daemon.socketDir), []);
  assertMatch(
    scene.daemon.log,
    /msg=ended reason="interrupted by SIGTERM"\n$/,
  );
});

Deno.test(
  onHost("the daemon posts what events it has when it ends"),
  async () => {
    await using scene = await Scene.start();
    const { api } = scene.host;
    const pod = await scene.addPod("web");
    const fault = api.fault({ method: "POST", status: 503 });
    await scene.succeed("ADD", pod);
    await eventually("it is in trouble", () => fault.hits > 0);
    fault.clear();
    await scene.daemon.end();
    assertEquals(api.events.length, 2);
  },
);

Deno.test(
  onHost("events are posted when ADD ends, whatever becomes of the daemon"),
  async () => {
    await using scene = await Scene.start();
    const { api } = scene.host;
    const pod = await scene.addPod("web");
    let { daemon } = scene;
    await eventually("the API server takes them in time", async () => {
      const before = api.events.length;
      await scene.succeed("ADD", pod);
      await daemon.kill();
      const { answers } = daemon;
      await scene.call("DEL", pod);
      daemon = await scene.startAnother();
      const posts = answers.filter(({ method }) => method === "POST");
      const safe = posts.filter(({ origin }) => origin === "api").length;
      assert(api.events.length - before >= safe);
      return safe === 2;
    });
  },
);

Deno.test(
  onHost("multus posts events on the connection that is open"),
  async () => {
    await using host = await MultusHost.start();
    const pod = host.addPod("web", { networks: "green" });
    const { connections } = host.api;
    await host.succeed("ADD", pod);
    assertEquals(host.api.events.length, 2);
    assertEquals(host.api.connections, connections + 1);
  },
);

Deno.test(onHost("of two daemons the later one is asked"), async () => {
  await using scene = await Scene.start();
  const pod = await scene.addPod("web");
  const later = await scene.startAnother();
  await scene.attachAndDetach(pod);
  await eventually("it was asked", () => isPatched(later));
  assertEquals(isPatched(scene.daemon), false);
  // The one that ends leaves the socket alone, which is not its own.
  assertEquals((await scene.daemon.end()).code, 0);
  await scene.attachAndDetach(pod);
  assertEquals((await later.end()).code, 0);
});

/** Reports whether a daemon has forwarded a status. */
function isPatched({ answers }: MultusDaemon): boolean {
  return answers.some(({ method, origin }) =>
    method === "PATCH" && origin === "api"
  );
}

Deno.test(onHost("a pod does not wait for the events of others"), async () => {
  await using scene = await Scene.start();
  const { host: { api }, daemon } = scene;
  const pod = await scene.addPod("web");
  const fault = api.fault({ method: "POST", delayMs: 600_000 });
  const event = (name: string): Promise<unknown> =>
    daemon.ask({
      method: "POST",
      path: EVENTS,
      headers: [["content-type", "application/json"]],
      body: JSON.stringify({ metadata: { name, namespace: "default" } }),
    });
  for (let i = 0; i < 1100; i++) await event(`full.${i}`);
  await eventually(
    "it says so",
    () => daemon.log.includes("Events are dropped: too many wait"),
  );
  await scene.attachAndDetach(pod);
  fault.clear();
});

Deno.test(
  onHost("an API server that is not there fails ADD in time, and no DEL"),
  async (t) => {
    const troubles: [string, (host: MultusHost) => Promise<void>][] = [
      ["refuses connections", ({ api }) => api.stop()],
      ["says nothing", ({ api }) => api.blackhole()],
    ];
    for (const [name, begin] of troubles) {
      await t.step(name, async () => {
        await using scene = await Scene.start();
        const [attached, late] = [
          await scene.addPod("attached"),
          await scene.addPod("late"),
        ];
        await scene.succeed("ADD", attached);
        await begin(scene.host);
        const { code, json, ms } = await scene.call("ADD", late);
        assertEquals([code, json.code], [1, 11]);
        assert(ms < DEADLINE_MS, `${ms} ms`);
        await scene.call("DEL", late);
        assertEquals(scene.host.leftoversOf(late), []);
        const deleted = await scene.succeed("DEL", attached);
        assert(deleted.ms < DEADLINE_MS, `${deleted.ms} ms`);
        assertEquals(scene.host.leftovers(), []);
        // What it knows it still tells.
        await scene.waitForMemory(
          "/api/v1/namespaces/default/pods/late",
          late.uid,
          (text) => text.includes("green"),
        );
        await scene.host.api.restart();
        await eventually("it watches", () => scene.daemon.isReady());
        await scene.attachAndDetach(late);
      });
    }
  },
);

Deno.test(onHost("an API server that is slow is waited for"), async () => {
  await using scene = await Scene.start();
  const { api } = scene.host;
  const pod = await scene.addPod("web");
  api.fault({ method: "PATCH", delayMs: 900 });
  await scene.succeed("ADD", pod);
  scene.assertAttached(pod);
});

Deno.test(
  onHost("an API server that was away for a moment is not noticed"),
  async () => {
    await using scene = await Scene.start();
    const pod = await scene.addPod("web");
    await scene.host.api.stop();
    const adding = scene.succeed("ADD", pod);
    await eventually(
      "in vain",
      () => scene.daemon.answers.some(({ method }) => method === "PATCH"),
    );
    await scene.host.api.restart();
    await adding;
    scene.assertAttached(pod);
  },
);

Deno.test(
  onHost("a pod that took the place of another is told from it"),
  async (t) => {
    await using scene = await Scene.start();
    const { api } = scene.host;
    const old = await scene.addPod("web");
    // Nobody tells the daemon of it.
    api.fault({ path: /watch=1/, status: 403 });
    api.endWatches();
    const annotations = { "k8s.v1.cni.cncf.io/networks": "blue-2" };
    api.putNad("default", "blue-2", {
      cniVersion: "1.0.0",
      type: "bridge",
      bridge: "br-blue",
    });
    const metadata = { namespace: "default", name: "web", uid: "new-uid" };
    api.putPod({ metadata: { ...metadata, annotations } });
    await t.step("the old one is refused", async () => {
      const { code, json } = await scene.call("ADD", old);
      assertEquals([code, json.code], [1, 4]);
      assertStringIncludes(json.msg, 'expected pod UID "uid-of-web"');
    });
    await t.step("the new one has its own networks", async () => {
      await scene.succeed("ADD", { ...old, uid: "new-uid" } as HostPod);
      const names = scene.host.status(old)
        .map(({ name }: { name: string }) => name);
      assertEquals(names, ["pods", "default/blue-2"]);
    });
  },
);

Deno.test(
  onHost("networks are as they were changed a moment ago"),
  async (t) => {
    await using scene = await Scene.start();
    const { api } = scene.host;
    const pod = await scene.addPod("web");
    const path =
      "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions/green";
    await t.step("changed", async () => {
      api.putNad("default", "green", {
        cniVersion: "1.0.0",
        name: "greener",
        type: "bridge",
        bridge: "br-green",
      });
      await scene.waitForMemory(path, "", (text) => text.includes("greener"));
      await scene.attachAndDetach(pod);
      assertEquals(scene.host.remembered, []);
    });
    await t.step("removed", async () => {
      api.removeNad("default", "green");
      await eventually("the daemon knows", async () => {
        const headers = [["cache-control", "max-stale"]] as const;
        return (await scene.daemon.ask({ path, headers })).status === 404;
      });
      const { code, json } = await scene.call("ADD", pod);
      assertEquals([code, json.code], [1, 7]);
      assertStringIncludes(json.msg, '"green" not found');
      await eventually(
        "told",
        () => api.events.some(({ reason }) => reason === "NoNetworkFound"),
      );
    });
    await t.step("made again, and asked for at once", async () => {
      api.putNad("default", "green", {
        cniVersion: "1.0.0",
        type: "bridge",
        bridge: "br-green",
      });
      await scene.attachAndDetach(pod);
    });
  },
);

Deno.test(
  onHost("the daemon gets by with less than it should be allowed"),
  async (t) => {
    await t.step("no watch", async () => {
      await using host = await MultusHost.start();
      host.api.forbid("watch", "*");
      await using daemon = MultusDaemon.spawn(host);
      await eventually(
        "listens",
        () => daemon.log.includes("msg=listening"),
      );
      const pod = host.addPod("web", { networks: "green" });
      const keys = { daemonSocketDir: daemon.socketDir };
      await host.succeed("ADD", pod, { keys });
      const origins = daemon.answers.map(({ origin }) => origin);
      assertEquals(origins.includes("cache"), false);
      assertEquals(origins.includes("api"), true);
    });
    await t.step("no PATCH", async () => {
      await using scene = await Scene.start();
      scene.host.api.forbid("patch", "pods/status");
      const pod = scene.host.addPod("web", {
        networks: "green",
        object: { status: { phase: "Pending", message: "keep me" } },
      });
      await scene.attachAndDetach(pod);
      // It is written back as a whole, so it must have been read as a whole.
      const written = scene.host.api.pod("default", "web");
      assertEquals(written?.["status"]?.message, "keep me");
      assertEquals(written?.["spec"]?.nodeName, "node1");
    });
  },
);

Deno.test(
  onHost("the daemon follows credentials that are replaced"),
  async (t) => {
    const kinds = ["token", "tokenFile"] as const;
    for (const kind of kinds) {
      await t.step(kind, async () => {
        await using host = await MultusHost.start();
        const folder = `${host.hosts.folder}/creds`;
        await Deno.mkdir(folder);
        const old = host.api.addToken();
        const kubeconfig = host.api.writeKubeconfig(folder, kind, {
          token: old,
        });
        await using daemon = await MultusDaemon.start(host, kubeconfig);
        const pod = host.addPod("web", { networks: "green" });
        host.api.writeKubeconfig(folder, kind);
        host.api.revokeToken(old);
        const keys = {
          daemonSocketDir: daemon.socketDir,
          kubeconfig: "/nowhere/at/all",
        };
        // It does not look for others each time that it is refused.
        await eventually("it is let in", async () => {
          const { code } = await host.call("ADD", pod, { keys });
          if (code !== 0) await host.succeed("DEL", pod, { keys });
          return code === 0;
        });
        assertEquals(host.status(pod).length, 2);
      });
    }
  },
);

Deno.test(onHost("a socket of somebody else's is not trusted"), async () => {
  await using scene = await Scene.start();
  const pod = await scene.addPod("web");
  const count = scene.daemon.answers.length;
  await Deno.chown(scene.daemon.socketPath, 1234, 1234);
  await scene.attachAndDetach(pod);
  assertEquals(scene.daemon.answers.length, count);
});

Deno.test(onHost("the daemon serves 30 pods at once"), async () => {
  await using scene = await Scene.start();
  const { host } = scene;
  const names = Array.from({ length: 30 }, (_, index) => `web-${index}`);
  const pods = await Promise.all(names.map((name) => scene.addPod(name)));
  host.api.clearRequests();
  await Promise.all(pods.map((pod) => scene.succeed("ADD", pod)));
  for (const pod of pods) scene.assertAttached(pod);
  // On a busy machine, some lose patience and ask the API server.
  const { answers } = scene.daemon;
  const gets = answers.filter(({ method }) => method === "GET");
  assertEquals(gets.filter(({ origin }) => origin !== "cache"), []);
  assert(gets.length > 0);
  await Promise.all(pods.map((pod) => scene.succeed("DEL", pod)));
  assertEquals(host.leftovers(), []);
  // An event that nobody took within half a second is lost.
  const taken = answers.filter(({ method }) => method === "POST").length;
  await eventually("all is told", () => host.api.events.length >= taken);
});

Deno.test(
  onHost("multus does with any daemon that comes and goes"),
  async () => {
    await using scene = await Scene.start();
    const names = Array.from({ length: 8 }, (_, index) => `web-${index}`);
    const pods = await Promise.all(names.map((name) => scene.addPod(name)));
    let isOver = false;
    const disturbing = (async () => {
      let daemon = scene.daemon;
      for (let round = 0; !isOver; round++) {
        await (round % 2 === 0 ? daemon.kill() : daemon.end());
        daemon = await scene.startAnother();
      }
    })();
    try {
      await Promise.all(pods.map((pod) => scene.succeed("ADD", pod)));
      for (const pod of pods) scene.assertAttached(pod);
      await Promise.all(pods.map((pod) => scene.succeed("DEL", pod)));
    } finally {
      isOver = true;
      await disturbing;
    }
    assertEquals(scene.host.leftovers(), []);
  },
);

Deno.test(onHost("multus daemon says why it cannot run"), async (t) => {
  const folder = await Deno.makeTempDir();
  const rows: [string, string[], RegExp][] = [
    ["no API server", [`--socket-dir=${folder}`], /neither a --kubeconfig nor/],
    ["no kubeconfig", ["--kubeconfig=/nowhere"], /"\/nowhere"/],
    [
      "a wrong flag",
      ["--config=x"],
      /unknown flag --config; see multus daemon --help/,
    ],
  ];
  for (const [name, args, problem] of rows) {
    await t.step(name, async () => {
      const { code, stdout, stderr } = await run(["daemon", ...args]);
      assertEquals([code, stdout], [1, ""]);
      assertMatch(stderr, problem);
      assert(!/\n\s+at /.test(stderr), stderr);
    });
  }
  await t.step("help", async () => {
    const { code, stdout } = await run(["daemon", "--help"]);
    assertEquals(code, 0);
    assertStringIncludes(stdout, "--socket-dir FOLDER");
  });
  await Deno.remove(folder, { recursive: true });
});

async function run(
  args: readonly string[],
): Promise<{ code: number; stdout: string; stderr: string }> {
  const { code, stdout, stderr } = await new Deno.Command(`${BIN}/multus`, {
    args: [...args],
    clearEnv: true,
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}

function listFolder(path: string): string[] {
  return [...Deno.readDirSync(path)].map(({ name }) => name);
}
