import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { requireReady, waitUntilReady } from "./pod.ts";

Deno.test("waitUntilReady() does not wait without a path", async () => {
  await waitUntilReady(undefined);
});

Deno.test("waitUntilReady() does not wait for an existing file", async () => {
  using directory = new PluginDirectory();
  const startedAt = performance.now();
  await waitUntilReady(directory.path);
  assert(performance.now() - startedAt < 900);
});

Deno.test("waitUntilReady() waits until the file exists", async () => {
  using directory = new PluginDirectory();
  const path = `${directory.path}/ready`;
  let isReady = false;
  const waiting = waitUntilReady(path).then(() => {
    isReady = true;
  });
  await Promise.resolve();
  assertEquals(isReady, false);
  directory.addFile("ready", "");
  await waiting;
});

Deno.test("waitUntilReady() fails with code 11 after its time limit", async (t) => {
  using directory = new PluginDirectory();
  const path = `${directory.path}/ready`;
  const text = "have you checked that your default network is ready? still " +
    `waiting for readinessindicatorfile @ ${path}`;
  const rows: [string, () => Promise<void>][] = [
    ["no time", () => waitUntilReady(path, undefined, 0)],
    ["some time", () => waitUntilReady(path, undefined, 20)],
    ["given up", () => waitUntilReady(path, AbortSignal.abort())],
    ["given up meanwhile", () => waitUntilReady(path, AbortSignal.timeout(5))],
  ];
  await eachRow(t, rows, async ([, wait]) => {
    const error = await assertRejects(wait, CniError, text);
    assertEquals(error.code, 11);
  });
});

Deno.test("waitUntilReady() fails at once if the path cannot be read", async () => {
  using directory = new PluginDirectory();
  const path = `${directory.addFile("file", "")}/ready`;
  const error = await assertRejects(() => waitUntilReady(path), CniError, path);
  assertEquals(error.code, 5);
});

Deno.test("requireReady() checks once", async (t) => {
  using directory = new PluginDirectory();
  await t.step("no file is configured", () => requireReady(undefined));
  await t.step("the file exists", () => requireReady(directory.path));
  await t.step("the file exists under the path without /host", () => {
    requireReady(`/host${directory.path}`);
  });
  await t.step("the file does not exist", () => {
    const path = `${directory.path}/ready`;
    const { code, message } = assertThrows(() => requireReady(path), CniError);
    assertEquals(code, 50);
    assertEquals(
      message,
      "have you checked that your default network is ready? still " +
        `waiting for readinessindicatorfile @ ${path}`,
    );
  });
});
