// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits meanwhile

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { findLowLimits, listRuntimes } from "./runtimes.ts";

/** The status of a process that root runs. */
const ROOT = "Name:\tcontainerd\nUid:\t0\t0\t0\t0\n";

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
  Deno.writeTextFileSync(`${directory}/status`, ROOT);
  await t.step("a limit", () => {
    Deno.writeTextFileSync(`${cgroup}/memory.max`, "4096\n");
    assertEquals(findLowLimits(node).length, 1);
    Deno.removeSync(`${cgroup}/memory.max`);
  });
  await t.step("a link to another file of the kernel", () => {
    Deno.symlinkSync("/proc/sys/kernel/ngroups_max", `${cgroup}/memory.max`);
    assertEquals(findLowLimits(node), []);
  });
  await t.step("the unit, below the service manager of a user", () => {
    const user = "user.slice/user-0.slice/user@0.service";
    for (
      const [group, unit] of [
        ["system.slice/containerd.service", "containerd.service"],
        [`${user}/app.slice/c.service`, "c.service"],
        [`${user}/app.slice/c.service/pod`, "c.service"],
        ["system.slice", "containerd"],
      ]
    ) {
      Deno.writeTextFileSync(`${directory}/cgroup`, `0::/${group}\n`);
      assertEquals(listRuntimes(node).map((one) => one.unit), [unit]);
    }
  });
  // Any user can name a program that becomes root, such as su, like a runtime.
  for (const uids of ["1000\t0\t0\t0", "65534\t65534\t65534\t65534"]) {
    await t.step(`a process with the user IDs ${uids.split("\t")}`, () => {
      assertEquals(listRuntimes(node).map(({ pid }) => pid), [4711]);
      Deno.writeTextFileSync(`${directory}/status`, `Uid:\t${uids}\n`);
      assertEquals(listRuntimes(node), []);
      Deno.writeTextFileSync(`${directory}/status`, ROOT);
    });
  }
});
