import { assertEquals } from "@std/assert";
import { findBootId, findFileId } from "../../base/files/same_file.ts";
import { unbindNetNs } from "../../ffi/netns.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  heldNetnsTest,
  leadsToNetns,
  leadsToSandbox,
} from "./netns_existence.ts";

rootTest(
  "leadsToSandbox() separates namespaces from paths of deleted ones",
  async (t) => {
    using hosts = TestHosts.create();
    const { directory, sandbox, host } = hosts;
    await Deno.writeTextFile(`${directory}/unmounted`, "");
    await Deno.symlink("loop", `${directory}/loop`);
    const rows: [string, string, boolean | undefined][] = [
      ["a namespace", sandbox.path, true],
      ["no path", "", undefined],
      ["a path that cannot be followed", `${directory}/loop`, undefined],
      ["a path through a file", `${directory}/unmounted/x`, false],
      ["nothing", `${directory}/gone`, false],
      ["the file that it was mounted on", `${directory}/unmounted`, false],
      ["the host's own namespace", host.path, false],
    ];
    await eachRow(t, rows, ([, path, expected]) => {
      assertEquals(leadsToSandbox(path, host.path), expected);
    });
    assertEquals(leadsToSandbox(sandbox.path, `${directory}/gone`), undefined);
  },
);

Deno.test("leadsToNetns() reports only the file that had the ID", async (t) => {
  const id = findFileId("/proc");
  const boot = findBootId();
  const rows: [string, Parameters<typeof leadsToNetns>, boolean][] = [
    ["the same", ["/proc", id], true],
    ["another", ["/proc", findFileId("/sys")], false],
    ["unknown", ["/nonexistent", undefined], false],
    ["of this boot", ["/proc", id, boot], true],
    ["of an earlier boot", ["/proc", id, "earlier"], boot === undefined],
  ];
  await eachRow(t, rows, ([, args, expected]) => {
    assertEquals(leadsToNetns(...args), expected);
  });
});

rootTest("heldNetnsTest() finds namespaces of processes and mounts", () => {
  using hosts = TestHosts.create();
  const path = `${hosts.directory}/mounted`;
  Deno.writeTextFileSync(path, "");
  const id = findFileId(hosts.sandbox.path);
  assertEquals(heldNetnsTest()(id), false);
  hosts.sandbox.bindTo(path);
  try {
    const isHeld = heldNetnsTest();
    assertEquals(isHeld(id), true);
    assertEquals(isHeld(findFileId("/proc/self/ns/net")), true);
    assertEquals(isHeld(undefined), false);
  } finally {
    unbindNetNs(path);
  }
});
