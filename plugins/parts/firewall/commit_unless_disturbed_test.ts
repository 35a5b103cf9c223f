import { assertEquals, assertRejects } from "@std/assert";
import { NetlinkError } from "../../../ffi/netlink/error.ts";
import { commitUnlessDisturbed } from "./commit_unless_disturbed.ts";
import { testRows } from "../../../tests/_harness/table.ts";

/** Source: include/uapi/asm-generic/errno-base.h, errno.h. */
const EPERM = 1, EINTR = 4, ERESTART = 85;

testRows("commitUnlessDisturbed() retries if another program committed first", [
  ["plan", EINTR, 3],
  ["commit", ERESTART, 3],
  ["plan", EPERM, 1],
  ["commit", EPERM, 1],
], async ([where, errno, expected]: ["plan" | "commit", number, number]) => {
  let looks = 0;
  const failTwice = (place: string): void => {
    if (place === where && looks < 3) throw new NetlinkError("test", errno);
  };
  const nftables = { generation: () => 7, commit: () => failTwice("commit") };
  const commit = (): Promise<void> =>
    commitUnlessDisturbed(nftables, () => {
      looks++;
      failTwice("plan");
      return [];
    });
  if (expected === 1) await assertRejects(commit, NetlinkError);
  else await commit();
  assertEquals(looks, expected);
}, ([where, errno]) => `${where}, errno ${errno}`);

Deno.test("commitUnlessDisturbed() yields to other calls before it retries", async () => {
  let hasRun = false;
  AbortSignal.timeout(0).addEventListener("abort", () => hasRun = true);
  const commit = (): void => {
    const startMs = performance.now();
    while (performance.now() - startMs < 1);
    if (!hasRun) throw new NetlinkError("test", ERESTART);
  };
  const nftables = { generation: () => 7, commit };
  await commitUnlessDisturbed(nftables, () => []);
});
