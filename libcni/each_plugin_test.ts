import { assertEquals, assertRejects } from "@std/assert";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import type { DeleteLinks } from "../cni/call/link_deletion.ts";
import { contextWith } from "../tests/_harness/call_context.ts";
import { describeError } from "../base/error.ts";
import type { Invoker } from "../cni/call/context.ts";
import { checkPlugins } from "./check.ts";
import { delPlugins } from "./del.ts";
import { gcPlugins } from "./gc.ts";
import { PluginFailure, type PluginTools } from "./operation.ts";
import { createTools } from "./api.ts";
import { Steps } from "./steps.ts";
import { testRows } from "../tests/_harness/table.ts";

const FAIL = 'echo \'{"code":11,"msg":"later"}\'; exit 1';
const prevResult = { cniVersion: "1.1.0", x: 1 };

/** Creates three plugins; the second fails on a given command. */
function makeHost(failing: string): RecordingPlugins {
  const host = new RecordingPlugins();
  host.add("a");
  host.add("b", { [failing]: FAIL });
  host.add("c");
  return host;
}

function toolsOf({ directory: { path } }: RecordingPlugins): PluginTools {
  return createTools({ pluginDirs: [path], env: { PATH: "/usr/bin:/bin" } });
}

Deno.test("checkPlugins() passes the same result to each plugin and stops at the first failure", async () => {
  using host = makeHost("CHECK");
  const list = host.list(["a", "b", "c"]);
  await assertRejects(
    () => checkPlugins(toolsOf(host), list, host.conf(), { prevResult }),
    Error,
    "later",
  );
  assertEquals(host.story, ["a CHECK", "b CHECK"]);
  assertEquals(
    host.calls.map(({ stdin }) => stdin.prevResult),
    [prevResult, prevResult],
  );
});

Deno.test("delPlugins() starts with the last plugin and stops at the first failure", async () => {
  using host = makeHost("DEL");
  const list = host.list(["a", "b", "c"]);
  const error = await assertRejects(
    () => delPlugins(toolsOf(host), list, host.conf(), { prevResult }),
    PluginFailure,
  );
  assertEquals(describeError(error), 'plugin type="b" failed (delete): later');
  assertEquals(host.story, ["c DEL", "b DEL"]);
  assertEquals(host.calls[1]?.stdin.prevResult, prevResult);
});

Deno.test("delPlugins() continues after failures on request", async () => {
  using host = makeHost("DEL");
  const list = host.list(["a", "b", "c"]);
  const options = { continueOnDelErrors: true };
  await assertRejects(
    () => delPlugins(toolsOf(host), list, host.conf(), options),
    PluginFailure,
  );
  assertEquals(host.story, ["c DEL", "b DEL", "a DEL"]);
});

Deno.test("delPlugins() runs all plugins even if links left for later cannot be deleted", async () => {
  using host = makeHost("none");
  const story: string[] = [];
  const invoker: Invoker = {
    async invoke({ type, linkDeletion, onProcess }): Promise<string> {
      if (type === "b") {
        await onProcess?.({ path: "/b", env: {}, stdin: new Uint8Array() });
      }
      story.push(type);
      const deleteTogether: DeleteLinks = (links) => {
        const names = links.map(({ name }) => name);
        story.push(`without ${names}`);
        if (names.includes("c's")) throw new Error("busy");
      };
      const link = { index: 1, name: `${type}'s`, netns: "/netns" };
      await linkDeletion?.later([{ ...link, deleteTogether }]);
      return "";
    },
  };
  const onProcess = (): Promise<void> => {
    story.push("process");
    return Promise.resolve();
  };
  const context = contextWith({ invoker, onProcess });
  const tools = { ...toolsOf(host), context };
  const error = await assertRejects(
    () => delPlugins(tools, host.list(["a", "b", "c"]), host.conf(), {}),
    Error,
  );
  assertEquals(describeError(error), "busy");
  assertEquals(story, [
    "c",
    "without c's",
    "process",
    "b",
    "a",
    "without b's,a's",
  ]);
});

// Plugins match keys in any case.
testRows(
  "delPlugins() reports no plugin that did not run to keep the addresses, even in a wrapped error",
  ["ipam", "IPAM", "delegate", "Delegate"],
  async (key) => {
    using host = makeHost("none");
    const story: string[] = [];
    const invoker: Invoker = {
      async invoke({ type, onProcess }): Promise<string> {
        if (type === "c") throw new Error("busy");
        try {
          await onProcess?.({ path: "/b", env: {}, stdin: new Uint8Array() });
        } catch (cause) {
          story.push(describeError(cause));
          throw new Error("cannot delegate", { cause });
        }
        return "";
      },
    };
    const tools = { ...toolsOf(host), context: contextWith({ invoker }) };
    const list = host.list(["a", "b", "c"]);
    const plugins = list.plugins.map((plugin) => ({
      ...plugin,
      document: { ...plugin.document, [key]: {} },
    }));
    const error = await assertRejects(
      () =>
        delPlugins(tools, { ...list, plugins }, host.conf(), {
          continueOnDelErrors: true,
        }),
      Error,
    );
    assertEquals(describeError(error), 'plugin type="c" failed (delete): busy');
    const why =
      "the addresses are kept because the DEL of another plugin has failed";
    assertEquals(story, [why, why]);
  },
);

Deno.test("delPlugins() keeps plugins recorded until the links that they left for later are deleted", async () => {
  using host = makeHost("none");
  const list = host.list(["a", "b", "c"]);
  const run = async (
    { isBusy, isKept }: { isBusy: boolean; isKept: boolean },
  ): Promise<readonly number[][]> => {
    const states: number[][] = [];
    const steps = new Steps(
      { left: [0, 1, 2] },
      ({ left }) => states.push([...left]),
      isKept,
    );
    const context = contextWith({
      invoker: {
        async invoke({ type, linkDeletion }): Promise<string> {
          const deleteTogether = (): void => {
            states.push([-1]);
            if (isBusy) throw new Error("busy");
          };
          const place = { index: 1, netns: "/netns" };
          const link = { ...place, name: type, deleteTogether };
          if (type === "c") await linkDeletion?.later([link]);
          if (type === "a") await linkDeletion?.now([link]);
          return "";
        },
      },
    });
    const tools = { ...toolsOf(host), context };
    const options = { steps, continueOnDelErrors: true };
    await delPlugins(tools, list, host.conf(), options).catch(() => {});
    return states;
  };
  const whole = { isBusy: false, isKept: true };
  assertEquals(await run(whole), [[-1], [0, 1], [0], []]);
  // The next DEL runs all of them again: a record says so from now on, or already.
  const busy = { isBusy: true, isKept: false };
  assertEquals(await run(busy), [[-1], [0, 1, 2]]);
  assertEquals(await run({ ...busy, isKept: true }), [[-1]]);
});

Deno.test("gcPlugins() runs all plugins and returns the failures", async () => {
  using host = makeHost("GC");
  const failures = await gcPlugins(
    toolsOf(host),
    host.list(["a", "b", "c"]),
    { validAttachments: [{ containerId: "c1", ifName: "eth0" }] },
  );
  assertEquals(failures.map(describeError), ["failed to GC plugin b: later"]);
  assertEquals(host.story, ["a GC", "b GC", "c GC"]);
  assertEquals(
    host.calls.map(({ stdin }) => stdin["cni.dev/valid-attachments"]),
    Array(3).fill([{ containerID: "c1", ifname: "eth0" }]),
  );
});
