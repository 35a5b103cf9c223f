import { assertEquals, assertThrows } from "@std/assert";
import { readCmdArgs } from "./args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { isOwnNetns } from "./own_netns.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** Any file works here, because files are compared. */
const OWN = "/proc/self/ns/net";
const OTHER = "/proc/self/ns/mnt";

Deno.test("isOwnNetns() recognizes the plugin's own namespace", async (t) => {
  const rows: [string, Record<string, string>, boolean][] = [
    ["the same path", { CNI_NETNS: OWN }, true],
    ["another path", { CNI_NETNS: `/proc/${Deno.pid}/ns/net` }, true],
    ["another namespace", { CNI_NETNS: OTHER }, false],
    ["a path to nothing", { CNI_NETNS: "/proc/0/ns/net" }, false],
    ["none", {}, false],
    ["allowed", { CNI_NETNS: OWN, CNI_NETNS_OVERRIDE: "1" }, false],
  ];
  await eachRow(t, rows, ([, env, expected]) => {
    assertEquals(isOwnNetns(readCmdArgs("VERSION", env), OWN), expected);
  });
});

Deno.test("isOwnNetns() needs the plugin's own namespace", () => {
  const error = assertThrows(
    () => isOwnNetns(readCmdArgs("VERSION", { CNI_NETNS: OWN }), "/absent"),
    CniError,
    `Cannot read the plugin's own network namespace "/absent"`,
  );
  assertEquals(error.code, ErrorCode.InvalidNetns);
});
