// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * multus, what it asks the API for, and operations without a pod or with what is
 * left of one.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { pause } from "../../../base/deadline.ts";
import { FileLock } from "../../../base/files/lock.ts";
import { findFileId } from "../../../base/files/same_file.ts";
import { AttachmentLocks, lockDirectoryOf } from "../../../libcni/lock.ts";
import {
  hostTest,
  LIMITED,
  MultusHost,
  POD_ANNOTATIONS,
  TWO_NETWORKS,
} from "../testing/host.ts";
import {
  keepFile,
  needsImmutableFiles,
} from "../../../tests/_harness/immutable_file.ts";
import { BIN } from "../../../tests/_harness/executables.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { hasCommand, ignoreUnless } from "../../../testing/capabilities.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

hostTest("multus sends few requests to the API", async (t) => {
  await t.step("for three networks: pod, networks, status", async () => {
    await using host = await MultusHost.start();
    const pod = host.addPod("web", { networks: TWO_NETWORKS });
    await host.succeed("ADD", pod);
    const made = host.api.requests
      .filter(({ method }) => method !== "POST")
      .map(({ method, path }) =>
        `${method} ${path.replace(/.*\/namespaces\/default\//, "")}`
      );
    assertEquals(made.sort(), [
      "GET network-attachment-definitions/blue",
      "GET network-attachment-definitions/green",
      "GET pods/web",
      "PATCH pods/web/status",
    ]);
  });
  await t.step("no pod if the runtime passes annotations", async () => {
    await using host = await MultusHost.start();
    const pod = host.addPod("web", { networks: "green" });
    const runtimeConfig = { [POD_ANNOTATIONS]: pod.annotations };
    await host.succeed("ADD", pod, { keys: { runtimeConfig } });
    assertEquals(host.requestsFor(pod, "GET"), []);
    assertEquals(host.interfaces(pod), ["eth0", "lo", "net1"]);
    assertEquals(host.status(pod).length, 2);
  });
  await t.step("none before the master of a pod without networks", async () => {
    await using host = await MultusHost.start();
    using directory = new PluginDirectory();
    directory.add(
      "slow",
      `[ "$CNI_COMMAND" = ADD ] || exit 0
        date +%s%N > '${directory.path}/ended'
        echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/x"}]}'`,
    );
    const pod = host.addPod("web");
    const startedMs = Date.now() - performance.now();
    await host.succeed("ADD", pod, {
      env: { CNI_PATH: directory.path },
      keys: {
        delegates: [{ cniVersion: "1.0.0", name: "slow", type: "slow" }],
        runtimeConfig: { [POD_ANNOTATIONS]: {} },
      },
    });
    const ended = Deno.readTextFileSync(`${directory.path}/ended`);
    const endedMs = Number(BigInt(ended) / 1_000_000n) - startedMs;
    const tooEarly = host.api.requests.filter(({ at }) => at < endedMs);
    assertEquals(tooEarly, []);
    assertEquals(host.status(pod).length, 1);
  });
  await t.step("no response is required for such a pod", async () => {
    await using host = await MultusHost.start();
    const pod = host.addPod("web");
    await host.api.stop();
    const runtimeConfig = { [POD_ANNOTATIONS]: {} };
    const call = { keys: { runtimeConfig } };
    const { code, stdout } = await host.call("ADD", pod, call);
    assertEquals(code, 0, stdout);
    assertEquals(host.interfaces(pod), ["eth0", "lo"]);
    await host.succeed("CHECK", pod, call);
    await host.succeed("DEL", pod, call);
    assertEquals(host.remains(), []);
  });
  await t.step("no request for DEL", async () => {
    await using host = await MultusHost.start();
    const pod = host.addPod("web", { networks: TWO_NETWORKS });
    await host.succeed("ADD", pod);
    host.api.clearRequests();
    await host.succeed("DEL", pod);
    assertEquals([host.api.requests, host.remains()], [[], []]);
  });
});

hostTest("multus detaches pods whose sandbox was deleted", async (t) => {
  await eachRow(t, ["", "/run/netns/gone"], async (path) => {
    await using host = await MultusHost.start();
    const pod = host.addPod("web", { networks: TWO_NETWORKS });
    await host.succeed("ADD", pod, LIMITED);
    pod[Symbol.dispose]();
    const deleted = await host.call("DEL", pod, { env: { CNI_NETNS: path } });
    assertEquals([deleted.code, deleted.stdout], [0, ""]);
    assertEquals(host.remains(), []);
  }, (path) => path === "" ? "no namespace is given" : path);
});

hostTest("multus' GC detaches only deleted pods", async () => {
  await using host = await MultusHost.start({ cniVersion: "1.1.0" });
  const pods = ["live", "crashed", "unseen"]
    .map((name) => host.addPod(name, { networks: "green" }));
  const [live, crashed, unseen] = pods;
  assert(live && crashed && unseen);
  for (const pod of pods) await host.succeed("ADD", pod);
  // One that nobody remembers: only the plugin can know.
  for (const file of host.remembered) {
    if (!file.includes(unseen.containerId)) continue;
    Deno.removeSync(`${host.cniDir}/${file}`);
  }
  for (const pod of [crashed, unseen]) pod[Symbol.dispose]();
  // A process that was killed after the last DEL, and one that still works.
  const [dead, held] = ["dead", "held"]
    .map((name) => `${host.cniDir}/locks/${name}`);
  assert(dead && held);
  Deno.writeTextFileSync(dead, "");
  using holder = FileLock.tryAcquire(held);
  const attachments = [{ containerID: live.containerId, ifname: "eth0" }];
  await host.succeed("GC", live, {
    keys: { "cni.dev/valid-attachments": attachments },
    env: { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" },
  });
  assertEquals([dead, held].filter((path) => findFileId(path)), [held]);
  holder?.remove();
  assertEquals(host.remainsOf(live), [
    "live: link eth0",
    "live: link net1",
    "live: rule 32765:\tfrom 10.20.0.2 lookup 100",
    live.containerId,
    `results/green-${live.containerId}-net1`,
    `results/pods-${live.containerId}-eth0`,
    "lease pods 10.10.0.2",
    "lease green 10.20.0.2",
  ]);
  assertEquals(host.remainsOf(crashed), []);
  // GC is the master's: what nobody remembers of other networks stays.
  assertEquals(host.remainsOf(unseen), ["lease green 10.20.0.4"]);
  await host.succeed("CHECK", live);
  await host.succeed("DEL", live);
  assertEquals(host.remains(), ["lease green 10.20.0.4"]);
});

hostTest(
  "multus' GC continues after a pod that cannot be detached",
  needsImmutableFiles,
  async () => {
    await using host = await MultusHost.start({ cniVersion: "1.1.0" });
    const pods = ["broken", "crashed", "unseen"]
      .map((name) => host.addPod(name, { networks: "green" }));
    const [broken, crashed, unseen] = pods;
    assert(broken && crashed && unseen);
    for (const pod of pods) await host.succeed("ADD", pod);
    for (const file of host.remembered) {
      if (!file.includes(unseen.containerId)) continue;
      Deno.removeSync(`${host.cniDir}/${file}`);
    }
    using _kept = keepFile(`${host.cniDir}/${broken.containerId}`);
    for (const pod of pods) pod[Symbol.dispose]();
    const failed = await host.call("GC", broken, {
      keys: { "cni.dev/valid-attachments": [] },
      env: { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" },
    });
    assertEquals(failed.code, 1, failed.stdout);
    assertStringIncludes(failed.stdout, broken.containerId);
    assertEquals(host.remainsOf(crashed), []);
    // GC of the master has released its address.
    assertEquals(host.remainsOf(unseen), ["lease green 10.20.0.4"]);
    assertEquals(host.remainsOf(broken), [broken.containerId]);
  },
);

hostTest(
  "multus' GC keeps a container on which another call works",
  async () => {
    await using host = await MultusHost.start({ cniVersion: "1.1.0" });
    const pod = host.addPod("web", { networks: "green" });
    await host.succeed("ADD", pod);
    const before = host.remainsOf(pod);
    const gc = {
      keys: { "cni.dev/valid-attachments": [] },
      env: { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" },
    };
    const locks = new AttachmentLocks(lockDirectoryOf(host.cniDir));
    {
      using _working = await locks.lockContainer(pod.containerId);
      const { code, stderr } = await host.call("GC", pod, gc);
      assertEquals(code, 0, stderr);
      assertStringIncludes(stderr, "Keeping a container that is in use");
      assertEquals(host.remainsOf(pod), before);
    }
    {
      // An ADD that ends while GC waits for it.
      using stack = new DisposableStack();
      stack.use(await locks.lockContainer(pod.containerId));
      const { output } = host.start("GC", pod, gc);
      await pause(1000);
      const now = new Date();
      await Deno.utime(`${host.cniDir}/${pod.containerId}`, now, now);
      stack.dispose();
      const { code, stderr } = await output;
      assertEquals(code, 0, stderr);
      assertEquals(host.remainsOf(pod), before);
    }
    await host.succeed("GC", pod, gc);
    assertEquals(host.remains(), []);
  },
);

hostTest("multus' GC of one network keeps the pods of another", async () => {
  await using host = await MultusHost.start({ cniVersion: "1.1.0" });
  const theirs = { keys: { name: "somebody-elses" } };
  const [ours, live] = ["ours", "live"]
    .map((name) => host.addPod(name, { networks: "green" }));
  assert(ours && live);
  await host.succeed("ADD", ours);
  await host.succeed("ADD", live, theirs);
  const before = host.remainsOf(live);
  ours[Symbol.dispose]();
  await host.succeed("GC", ours, {
    keys: { "cni.dev/valid-attachments": [] },
    env: { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" },
  });
  assertEquals(host.remainsOf(ours), []);
  assertEquals(host.remainsOf(live), before);
  await host.succeed("CHECK", live, theirs);
  await host.succeed("DEL", live, theirs);
  assertEquals(host.remains(), []);
});

hostTest(
  "multus' GC reads the cache once, and names each torn file once",
  ignoreUnless(hasCommand("strace"), "needs strace"),
  async () => {
    await using host = await MultusHost.start({ cniVersion: "1.1.0" });
    const pod = host.addPod("web", { networks: "green" });
    await host.succeed("ADD", pod);
    const torn = [["pods", "eth0"], ["green", "net1"]].map(([name, link]) =>
      `${host.cniDir}/results/${name}-${pod.containerId}-${link}`
    );
    const whole = torn.map((path) => Deno.readFileSync(path));
    for (const path of torn) Deno.truncateSync(path, 20);
    const attachments = [{ containerID: pod.containerId, ifname: "eth0" }];
    const trace = `${host.hosts.directory}/trace`;
    const strace = ["-f", "-qq", "-o", trace, "-e", "trace=openat"];
    const { code, stderr } = await host.call("GC", pod, {
      command: ["/usr/bin/strace", ...strace, `${BIN}/multus`],
      keys: { "cni.dev/valid-attachments": attachments },
      env: { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" },
    });
    assertEquals(code, 0, stderr);
    const opened = Deno.readTextFileSync(trace);
    for (const path of torn) {
      for (const text of [stderr, opened]) {
        const lines = text.split("\n").filter((line) => line.includes(path));
        assertEquals(lines.length, 1, lines.join("\n"));
      }
    }
    whole.forEach((bytes, at) => Deno.writeFileSync(torn[at] ?? "", bytes));
    await host.succeed("DEL", pod);
    assertEquals(host.remains(), []);
  },
);

hostTest("multus' STATUS runs STATUS of the master network", async () => {
  await using host = await MultusHost.start({ cniVersion: "1.1.0" });
  const pod = host.addPod("nobody");
  const env = { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "" };
  assertEquals((await host.succeed("STATUS", pod, { env })).stdout, "");
  using directory = new PluginDirectory();
  directory.add("busy", `echo '{"code":51,"msg":"no more"}'; exit 1`);
  const delegates = [{ cniVersion: "1.1.0", name: "busy", type: "busy" }];
  const { code, json } = await host.call("STATUS", pod, {
    keys: { delegates },
    env: { ...env, CNI_PATH: directory.path },
  });
  assertEquals([code, json.code, json.msg], [1, 51, "no more"]);
  assertEquals(host.api.requests, []);
});
