// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { findLowLimits, listRuntimes } from "./runtimes.ts";

rootTest("cni doctor reads only files of root's runtimes", async (t) => {
  using hosts = TestHosts.create();
  const proc = `${hosts.directory}/proc`, directory = `${proc}/4711`;
  const node = { proc, hostNetns: hosts.host.path };
  const cgroup = `${directory}/root/sys/fs/cgroup`;
  for (const path of [`${directory}/ns`, cgroup]) {
    Deno.mkdirSync(path, { recursive: true });
  }
  Deno.symlinkSync(hosts.host.path, `${directory}/ns/net`);
  Deno.writeTextFileSync(`${directory}/comm`, "containerd\n");
  Deno.writeTextFileSync(`${directory}/cgroup`, "0::\n");
  await t.step("a limit", () => {
    Deno.writeTextFileSync(`${cgroup}/memory.max`, "4096\n");
    assertEquals(findLowLimits(node).length, 1);
    Deno.removeSync(`${cgroup}/memory.max`);
  });
  await t.step("a link to another file of the kernel", () => {
    Deno.symlinkSync("/proc/sys/kernel/ngroups_max", `${cgroup}/memory.max`);
    assertEquals(findLowLimits(node), []);
  });
  await t.step("a process of another user", () => {
    assertEquals(listRuntimes(node).map(({ pid }) => pid), [4711]);
    Deno.chownSync(directory, 65534, 65534);
    assertEquals(listRuntimes(node), []);
  });
});
