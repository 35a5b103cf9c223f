import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  contextWith,
  OWN_NETNS as OWN,
} from "../tests/_harness/call_context.ts";
import { createLog } from "../base/log/log.ts";
import { dropRecycledNetns } from "./recycled_netns.ts";
import { eachRow } from "../tests/_harness/table.ts";

/** Any file works here, because files are compared. */
const OTHER = "/proc/self/ns/mnt";

Deno.test("dropRecycledNetns() keeps DEL out of the runtime's own namespace", async (t) => {
  const allowed = { CNI_NETNS_OVERRIDE: "1" };
  const rows: [string, string, Record<string, string>, string][] = [
    ["its own", `/proc/${Deno.pid}/ns/net`, {}, ""],
    ["its own, where that is allowed", OWN, allowed, OWN],
    ["another", OTHER, {}, OTHER],
    ["one that no longer exists", "/proc/0/ns/net", {}, "/proc/0/ns/net"],
    ["none", "", {}, ""],
  ];
  await eachRow(t, rows, ([, netns, env, expected]) => {
    let logged = "";
    const log = createLog({}, (text) => void (logged += text));
    const conf = { containerId: "c1", netns, ifName: "eth0" };
    const kept = dropRecycledNetns({
      context: contextWith({ env }),
      log,
    }, conf);
    assertEquals(kept, { ...conf, netns: expected });
    if (expected === netns) assertEquals(logged, "");
    else assertStringIncludes(logged, `netns=${netns}`);
  });
});
