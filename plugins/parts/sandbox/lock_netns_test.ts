import { assertEquals, assertRejects } from "@std/assert";
import { createLog } from "../../../base/log/log.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import {
  needsOtherLocker,
  OtherUsersLock,
} from "../../../tests/_harness/other_user.ts";
import { lockSandbox, lockSandboxIfPossible } from "./lock_netns.ts";

const LINES: string[] = [];
const call = {
  log: createLog({}, (line) => LINES.push(line)),
  signal: undefined,
};

rootTest(
  "lockSandbox() waits for no lock of another user",
  needsOtherLocker,
  async () => {
    using hosts = TestHosts.create();
    using sandbox = Rtnl.open(hosts.sandbox.path);
    const enter = ["nsenter", `--net=${hosts.sandbox.path}`, "--"];
    await using _other = await OtherUsersLock.take("/proc/self/ns/net", enter);
    using _lock = await lockSandbox(sandbox, call, 0);
  },
);

rootTest("lockSandboxIfPossible() goes on at the time limit", async () => {
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
