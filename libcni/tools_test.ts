import { assertEquals, assertStrictEquals } from "@std/assert";
import { execInvoker } from "../cni/invoke/exec_invoker.ts";
import { createTools } from "./tools.ts";

Deno.test("createTools() runs plugins as processes from this thread's namespace by default", () => {
  const tools = createTools({ pluginDirs: [], env: {} });
  assertStrictEquals(tools.context.invoker, execInvoker);
  assertEquals(tools.context.hostNetns, "/proc/thread-self/ns/net");
  assertEquals(tools.locks, undefined);
});

Deno.test("createTools() logs to the same place as plugins", () => {
  let logged = "";
  const { log } = createTools({
    pluginDirs: [],
    env: {},
    onStderr: (text) => void (logged += text),
  });
  log.warn("Going on");
  assertEquals(logged, 'level=warn component=libcni msg="Going on"\n');
});

Deno.test("createTools() passes on whether the node's log has warnings", () => {
  const options = { pluginDirs: [], env: {} };
  const { context } = createTools({ ...options, keepsLog: true });
  assertEquals(context.keepsLog, true);
  assertEquals(createTools(options).context.keepsLog, undefined);
});
