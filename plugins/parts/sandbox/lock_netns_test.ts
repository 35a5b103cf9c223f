import { assertEquals, assertRejects } from "@std/assert";
import { createLog } from "../../../base/log/log.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { lockSandbox, lockSandboxIfPossible } from "./lock_netns.ts";

const LINES: string[] = [];
const call = {
  log: createLog({}, (line) => LINES.push(line)),
  signal: undefined,
};

rootTest("lockSandboxIfPossible() continues at the time limit", async () => {
  using sandbox = Rtnl.open("/proc/thread-self/ns/net");
  using _stuck = await lockSandbox(sandbox, call);
  await assertRejects(
    () => lockSandbox(sandbox, call, 0),
    Error,
    "Cannot lock network namespace",
  );
  assertEquals(LINES, []);
  assertEquals(await lockSandboxIfPossible(sandbox, call, 0), undefined);
  assertEquals(LINES.length, 1);
  const signal = AbortSignal.abort();
  await assertRejects(
    () => lockSandboxIfPossible(sandbox, { ...call, signal }),
    Error,
    "Cannot lock network namespace",
  );
});
