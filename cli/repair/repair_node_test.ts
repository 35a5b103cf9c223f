import { assertEquals } from "@std/assert";
import { describeError } from "../../base/error.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { RecordingPlugins } from "../../tests/_harness/recording_plugins.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { listNodeAttachments } from "../node/node_attachments.ts";
import { repairAttachments } from "./repair_node.ts";

const VERSION =
  `echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"],"commands":["REPAIR"]}'`;
const REPAIR = `echo '{"cniVersion":"1.1.0","repaired":["x"],"remaining":[]}'`;

testRows("repairAttachments() checks again after a repair", [
  ["and runs DEL if the runtime's has ended by then", true],
  ["and keeps what is still attached", false],
], async ([, isDeleted]) => {
  using host = new RecordingPlugins();
  host.add("own", { VERSION, REPAIR });
  await host.runtime().addNetworkList(host.list(["own"]), host.conf());
  const { repairs } = await repairAttachments(listNodeAttachments(host), {
    createRuntime: () => host.runtime(),
    hostNetns: OWN_NETNS,
    around: async (_, work) => {
      const repair = await work();
      // A runtime clears its cache after DEL of the last plugin.
      if (isDeleted && host.cached.length > 0) {
        await Deno.remove(host.cacheDir, { recursive: true });
      }
      return repair;
    },
  });
  assertEquals(
    repairs.map(({ plugins }) => plugins.flatMap((one) => one.repaired)),
    [isDeleted ? [] : ["x"]],
  );
  assertEquals(
    host.story.slice(1),
    ["own VERSION", "own REPAIR", ...isDeleted ? ["own DEL"] : []],
  );
});

Deno.test("repairAttachments() repairs a container again after a loss during the round", async () => {
  using host = new RecordingPlugins();
  host.add("own", {
    VERSION,
    REPAIR: `mkdir "$0.y" 2>/dev/null && ${REPAIR} || ${
      REPAIR.replace("x", "y")
    }`,
  });
  await host.runtime().addNetworkList(host.list(["own"]), host.conf());
  let lostMs = -Infinity;
  const { repairs: [repair] } = await repairAttachments(
    listNodeAttachments(host),
    {
      createRuntime: () => host.runtime(),
      hostNetns: OWN_NETNS,
      takeLoss: () => lostMs,
      around: async (_, work) => {
        const repair = await work();
        if (lostMs === -Infinity) lostMs = performance.now();
        return repair;
      },
    },
  );
  assertEquals(repair?.plugins.map(({ repaired }) => repaired), [["x", "y"]]);
  assertEquals(host.story.slice(1), [
    ...["own VERSION", "own REPAIR", "own REPAIR"],
  ]);
});

Deno.test("repairAttachments() waits for a slow DEL", async () => {
  using host = new RecordingPlugins();
  host.add("own", { VERSION, REPAIR });
  // The ID is in no other test: its processes are looked for on the whole machine.
  const containerId = `long-${Deno.pid}`;
  const conf = host.conf({ containerId });
  await host.runtime().addNetworkList(host.list(["own"]), conf);
  const del = new Deno.Command("sh", {
    args: ["-c", `sleep 4; rm -r ${host.cacheDir}`],
    env: { CNI_COMMAND: "DEL", CNI_CONTAINERID: containerId },
  }).spawn();
  await repairAttachments(listNodeAttachments(host), {
    createRuntime: () => host.runtime(),
    hostNetns: OWN_NETNS,
  });
  await del.status;
  assertEquals(host.story.slice(1), ["own VERSION", "own REPAIR", "own DEL"]);
});

Deno.test("repairAttachments() checks again after the signal stopped the repairs", async () => {
  using host = new RecordingPlugins();
  host.add("own", { VERSION, REPAIR });
  for (const ifName of ["eth0", "eth1"]) {
    await host.runtime().addNetworkList(
      host.list(["own"]),
      host.conf({ ifName }),
    );
  }
  const end = new AbortController();
  const { repairs, failure } = await repairAttachments(
    listNodeAttachments(host),
    {
      createRuntime: () => host.runtime(),
      hostNetns: OWN_NETNS,
      signal: end.signal,
      around: async (_, work) => {
        const repair = await work();
        if (end.signal.aborted) return repair;
        await Deno.remove(host.cacheDir, { recursive: true });
        end.abort(new Error("the round ends"));
        return repair;
      },
    },
  );
  assertEquals([repairs.length, describeError(failure)], [1, "the round ends"]);
  assertEquals(host.story.slice(2), ["own VERSION", "own REPAIR", "own DEL"]);
});

Deno.test("repairAttachments() reports repairs that finished before the signal", async () => {
  using host = new RecordingPlugins();
  host.add("own", { VERSION, REPAIR });
  host.add("slow", { VERSION, REPAIR: "exec sleep 60" });
  const list = host.list(["own", "slow", "own"]);
  await host.runtime().addNetworkList(list, host.conf());
  const end = new AbortController();
  const repairing = repairAttachments(listNodeAttachments(host), {
    createRuntime: () => host.runtime(),
    hostNetns: OWN_NETNS,
    signal: end.signal,
  });
  await eventually("slow runs", () => host.story.includes("slow REPAIR"));
  end.abort(new Error("the round ends"));
  const { repairs: [repair], failure } = await repairing;
  assertEquals(describeError(failure), "the round ends");
  assertEquals(
    repair?.plugins.map(({ type, repaired }) => [type, repaired]),
    [["own", ["x"]], ["slow", []]],
  );
  assertEquals(repair?.error, "the round ends");
});
