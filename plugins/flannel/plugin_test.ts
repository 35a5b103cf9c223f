import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { linkNames, runIn } from "../../testing/ip_json.ts";
import { FlannelScene, SUBNET_ENV } from "./testing.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { RecordingPlugins } from "../../tests/_harness/recording_plugins.ts";

/** Replaces the file of the attachment by what the Go plugin writes. */
function asGoWrites(scene: FlannelScene, name = "test-container"): void {
  const { flannelIfName: _, ...conf } = JSON.parse(scene.saved[name] ?? "");
  const path = `${scene.config["dataDir"]}/${name}`;
  Deno.writeTextFileSync(path, JSON.stringify(conf));
}

rootTest("flannel.add() keeps an existing attachment", async () => {
  using scene = new FlannelScene();
  await scene.succeed("ADD");
  const before = scene.state;
  scene.writeEnv(SUBNET_ENV.dual);
  assertEquals((await scene.run("ADD")).exitCode, 1);
  assertEquals(scene.state, before);
  await scene.succeed("DEL");
});

rootTest(
  "flannel.add() runs DEL of a delegate whose ADD failed",
  async () => {
    using scene = new FlannelScene();
    using plugins = new RecordingPlugins();
    plugins.add("bridge", {
      ADD: `echo '{"code": 7, "msg": "not today"}'; exit 1`,
    });
    const path = { env: { CNI_PATH: plugins.directory.path } };
    const { json, stderr } = await scene.run("ADD", {}, path);
    assertEquals([json.code, json.msg, stderr], [7, "not today", ""]);
    assertEquals(plugins.story, ["bridge ADD", "bridge DEL"]);
    assertEquals(scene.saved, {});
  },
);

rootTest(
  "flannel.add() saves nothing if the delegate is missing",
  async () => {
    using scene = new FlannelScene({ delegate: { type: "no-such" } });
    await scene.fail("ADD", [999, 'failed to find plugin "no-such" in path']);
    assertEquals(scene.saved, {});
  },
);

rootTest("flannel.add() does not delegate to itself", async () => {
  using scene = new FlannelScene({ delegate: { type: "flannel" } });
  await scene.fail("ADD", [7, 'plugin "flannel" cannot delegate to itself']);
  assertEquals(scene.saved, {});
  await scene.succeed("DEL");
});

rootTest("flannel saves each attachment of a container apart", async () => {
  using scene = new FlannelScene();
  const second = { ifName: "net1" };
  await scene.succeed("ADD");
  await scene.succeed("ADD", {}, second);
  assertEquals(Object.keys(scene.saved), [
    "test-container",
    "test-container:net1",
  ]);
  await scene.succeed("DEL");
  assertEquals(Object.keys(scene.saved), ["test-container:net1"]);
  assertEquals(linkNames(scene.hosts.sandbox), ["lo", "net1"]);
  await scene.succeed("DEL", {}, second);
  assertEquals([scene.saved, scene.hosts.leases()], [{}, []]);
});

rootTest("flannel.del() keeps the saved file of another network", async () => {
  using scene = new FlannelScene();
  await scene.succeed("ADD");
  const before = scene.state;
  await scene.succeed("DEL", { name: "net2" });
  assertEquals(scene.state, before);
  asGoWrites(scene);
  await scene.succeed("DEL", { name: "net2" });
  assertEquals(Object.keys(scene.saved), ["test-container"]);
});

rootTest("flannel.check() reports each missing part", async (t) => {
  const tampered: Readonly<Record<string, (scene: FlannelScene) => void>> = {
    "the saved configuration": ({ config }) =>
      Deno.removeSync(`${config["dataDir"]}/test-container`),
    "the readable saved configuration": ({ config }) =>
      Deno.truncateSync(`${config["dataDir"]}/test-container`),
    "the link": ({ hosts }) =>
      runIn(hosts.sandbox, "ip", "link", "delete", "eth0"),
    "the lease": ({ hosts }) =>
      Deno.removeSync(`${hosts.directory}/leases/net1/10.244.1.2`),
  };
  for (const [name, tamper] of Object.entries(tampered)) {
    await t.step(name, async () => {
      using scene = new FlannelScene();
      const { json: prevResult } = await scene.succeed("ADD");
      tamper(scene);
      assertEquals((await scene.run("CHECK", { prevResult })).exitCode, 1);
    });
  }
});

rootTest("flannel passes the attachment's result to its delegate", async () => {
  using scene = new FlannelScene();
  using plugins = new RecordingPlugins();
  plugins.add("bridge");
  const env = { CNI_PATH: plugins.directory.path };
  const prevResult = { cniVersion: "1.1.0", ips: [{ address: "10.0.0.2/24" }] };
  await scene.succeed("ADD", {}, { env });
  await scene.succeed("CHECK", { prevResult }, { env });
  await scene.succeed("DEL", { prevResult }, { env });
  assertEquals(
    plugins.calls.map(({ command, stdin }) => [command, stdin.prevResult]),
    [["ADD", undefined], ["CHECK", prevResult], ["DEL", prevResult]],
  );
});

rootTest("flannel.del() succeeds without files or valid keys", async (t) => {
  const broken: Readonly<Record<string, Keys>> = {
    "no file": {},
    "no directory": { dataDir: "/no/such/directory" },
    "a directory that is a file": { dataDir: "/proc/self/exe" },
    "keys of other types": { dataDir: 7, delegate: [], ipam: "x" },
  };
  for (const [name, keys] of Object.entries(broken)) {
    await t.step(name, async () => {
      using scene = new FlannelScene();
      const options = { env: { CNI_NETNS: "" } };
      assertEquals((await scene.run("DEL", keys, options)).exitCode, 0);
    });
  }
});

rootTest(
  "flannel.del() detaches despite a damaged saved configuration",
  async () => {
    for (const content of ["", '{"name":"net1","ty', "[]", '{"name":7}']) {
      using scene = new FlannelScene();
      await scene.succeed("ADD");
      const path = `${scene.config["dataDir"]}/test-container`;
      await Deno.writeTextFile(path, content);
      await Deno.remove(`${scene.config["subnetFile"]}`);
      const { exitCode, stderr } = await scene.run("DEL");
      assertEquals(exitCode, 0);
      assertStringIncludes(stderr, "saved configuration that is damaged");
      assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
      assertEquals([scene.saved, scene.hosts.leases()], [{}, []]);
    }
  },
);

rootTest(
  "flannel.del() detaches with prevResult if the saved file is lost",
  async (t) => {
    const losses: Readonly<Record<string, readonly string[]>> = {
      "the saved configuration": ["dataDir"],
      "subnet.env, too": ["dataDir", "subnetFile"],
    };
    for (const [name, keys] of Object.entries(losses)) {
      await t.step(name, async () => {
        using scene = new FlannelScene();
        const { json: prevResult } = await scene.succeed("ADD");
        for (const key of keys) {
          await Deno.remove(`${scene.config[key]}`, { recursive: true });
        }
        await scene.succeed("DEL", { prevResult });
        assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
        assertEquals([scene.saved, scene.hosts.leases()], [{}, []]);
        await scene.succeed("DEL", { prevResult });
      });
    }
  },
);

rootTest("flannel.gc() detaches stale attachments", async () => {
  using scene = new FlannelScene();
  const { hosts } = scene;
  const add = async (containerId: string): Promise<void> => {
    const sandbox = hosts.addNetns();
    await scene.succeed("ADD", {}, { containerId, sandbox });
  };
  for (const id of ["kept", "gone", "go-kept", "go-gone"]) await add(id);
  asGoWrites(scene, "go-kept");
  asGoWrites(scene, "go-gone");
  const valid = (...ids: string[]): Keys => ({
    "cni.dev/valid-attachments": ids.map((containerID) => ({
      containerID,
      ifname: "eth0",
    })),
  });
  const startedAt = new Date(Date.now() + 1000);
  // Of another network, without a list, and before these were added: nothing.
  const before = scene.state;
  await scene.run("GC", { name: "net2", ...valid() }, { startedAt });
  await scene.succeed("GC", {}, { startedAt });
  assertEquals(scene.state, before);
  assertEquals(Object.keys(scene.saved).length, 4);

  await scene.succeed("GC", valid("kept", "go-kept"), { startedAt });
  assertEquals(Object.keys(scene.saved), ["go-kept", "kept"]);
  assertEquals(hosts.leases(), ["10.244.1.2", "10.244.1.4"]);
});

rootTest(
  "flannel.gc() keeps attachments newer than the runtime's list",
  async () => {
    using scene = new FlannelScene();
    using plugins = new RecordingPlugins();
    plugins.add("bridge");
    const env = { CNI_PATH: plugins.directory.path };
    await scene.succeed("ADD", {}, { env });
    const keys = { "cni.dev/valid-attachments": [] };
    const startedAt = new Date(Date.now() - 60_000);
    await scene.succeed("GC", keys, { env, startedAt });
    assertEquals(plugins.story, ["bridge ADD", "bridge GC"]);
    assertEquals(plugins.calls[1]?.stdin["cni.dev/valid-attachments"], []);
    assert("test-container" in scene.saved);
  },
);

rootTest(
  "flannel.gc() detaches without subnet.env, and reports the missing file",
  async () => {
    using scene = new FlannelScene();
    await scene.succeed("ADD");
    await Deno.remove(`${scene.config["subnetFile"]}`);
    const startedAt = new Date(Date.now() + 1000);
    const { exitCode, json } = await scene.run("GC", {
      "cni.dev/valid-attachments": [],
    }, { startedAt });
    assertEquals([exitCode, json.code], [1, 11]);
    assertEquals([scene.saved, scene.hosts.leases()], [{}, []]);
  },
);

rootTest(
  "flannel.gc() continues if one container cannot be detached",
  async () => {
    using scene = new FlannelScene();
    const { hosts } = scene;
    for (const containerId of ["a", "b", "c"]) {
      await scene.succeed("ADD", {}, {
        containerId,
        sandbox: hosts.addNetns(),
      });
    }
    // The first one needs a plugin that is gone; of the last one only the lease is left.
    const directory = `${scene.config["dataDir"]}`;
    const conf = JSON.parse(scene.saved["a"] ?? "");
    const broken = JSON.stringify({ ...conf, type: "no-such" });
    await Deno.writeTextFile(`${directory}/a`, broken);
    await Deno.remove(`${directory}/c`);
    const startedAt = new Date(Date.now() + 1000);
    const text = 'Cannot release container "a"';
    const gc = { "cni.dev/valid-attachments": [] };
    await scene.fail("GC", [999, text], gc, { startedAt });
    assertEquals(Object.keys(scene.saved), ["a"]);
    assertEquals(hosts.leases(), []);
  },
);
