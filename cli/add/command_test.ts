// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assertMatch, assertRejects } from "@std/assert";
import {
  AttachmentCache,
  AttachmentLocks,
  lockDirectoryOf,
} from "../../libcni/mod.ts";
import type { CniCall } from "../flags.ts";
import { add } from "./command.ts";
import { check } from "../check/command.ts";
import { del } from "../del/command.ts";
import { gc } from "../gc/command.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { callWith, runCni } from "../../tests/_harness/tool_call.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const NETNS = "/proc/self/ns/net";

function callIn(
  directory: string,
  signal: AbortSignal,
  onStderr: (text: string) => void = () => {},
): CniCall {
  const flags = {
    "undo-timeout": "30s",
    "cache-dir": directory,
    "cni-path": directory,
    "container-id": "c",
  };
  const args = [`${directory}/net.conflist`, NETNS];
  return callWith({ args, flags, onStderr, signal, timeoutMs: 1 });
}

Deno.test("add() refuses an attachment that another process added while it waited", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  try {
    Deno.writeTextFileSync(
      `${directory}/net.conflist`,
      JSON.stringify({ name: "net", plugins: [{ type: "none" }] }),
    );
    const lock = await new AttachmentLocks(lockDirectoryOf(directory))
      .lockContainer("c");
    const { signal } = new AbortController();
    const { promise: waits, resolve } = Promise.withResolvers<void>();
    const adding = add(callIn(directory, signal, (text) => {
      if (text.includes("Waiting for the lock")) resolve();
    }));
    await waits;
    new AttachmentCache(directory).writeAttachment({
      network: "other",
      containerId: "c",
      ifName: "eth0",
      netns: NETNS,
      config: new Uint8Array(),
      cniArgs: [],
      capabilityArgs: {},
    }, undefined);
    lock[Symbol.dispose]();
    await assertRejects(
      () => adding,
      Error,
      'attached to "other" with container ID "c"',
    );
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("a command reports that its time limit expired before it started", async (t) => {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  try {
    Deno.writeTextFileSync(
      `${directory}/net.conflist`,
      JSON.stringify({
        cniVersion: "1.1.0",
        name: "net",
        plugins: [{ type: "none" }],
      }),
    );
    new AttachmentCache(directory).writeAttachment({
      network: "net",
      containerId: "c",
      ifName: "eth0",
      netns: NETNS,
      config: new TextEncoder().encode("{}"),
      cniArgs: [],
      capabilityArgs: {},
    }, {});
    const signal = AbortSignal.timeout(1);
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    await eachRow(t, [add, check, del, gc], async (command) => {
      await assertRejects(
        async () => await command(callIn(directory, signal)),
        Error,
        "Timed out after 1ms, before any plugin was started",
      );
    }, (command) => command.name);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("add suggests a plugin instead of a misspelt one", async () => {
  using directory = new PluginDirectory();
  const { path } = directory;
  directory.addFile(
    "10.conflist",
    JSON.stringify({
      cniVersion: "1.0.0",
      name: "misspelt",
      plugins: [{ type: "brigde" }],
    }),
  );
  const { stderr } = await runCni(
    ...["add", "misspelt", "/proc/1/ns/net", "--no-undo"],
    ...[`--conf-dir=${path}`, `--cni-path=${path}`, `--cache-dir=${path}`],
  );
  assertMatch(stderr, /"brigde" in path \[.*\]; did you mean "bridge"\?/);
});
