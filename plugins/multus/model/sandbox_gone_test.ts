import { assertEquals } from "@std/assert";
import { requireRoot } from "../../../testing/capabilities.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { isSandboxGone } from "./sandbox_gone.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

Deno.test({
  ...requireRoot("isSandboxGone() tells a namespace from what one leaves"),
  async fn(t): Promise<void> {
    using hosts = TestHosts.create();
    const { directory, sandbox, host } = hosts;
    Deno.writeTextFileSync(`${directory}/unmounted`, "");
    const rows: [string, string, boolean][] = [
      ["a namespace", sandbox.path, false],
      ["no path", "", false],
      ["a path that cannot be followed", `${directory}/unmounted/x`, false],
      ["nothing", `${directory}/gone`, true],
      ["the file that it was mounted on", `${directory}/unmounted`, true],
      ["the host's own namespace", host.path, true],
    ];
    await eachRow(t, rows, ([, path, isGone]) => {
      assertEquals(isSandboxGone(path, host.path), isGone);
    });
  },
});
