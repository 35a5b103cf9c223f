import { assertEquals, assertThrows } from "@std/assert";
import { NetlinkError } from "../../../ffi/netlink/error.ts";
import { commitUnlessDisturbed } from "./commit_unless_disturbed.ts";
import { testRows } from "../../../tests/_harness/table.ts";

/** Source: include/uapi/asm-generic/errno-base.h, errno.h. */
const EPERM = 1, EINTR = 4, ERESTART = 85;

testRows("commitUnlessDisturbed() looks again when others commit meanwhile", [
  ["plan", EINTR, 3],
  ["commit", ERESTART, 3],
  ["plan", EPERM, 1],
  ["commit", EPERM, 1],
], ([where, errno, expected]: ["plan" | "commit", number, number]) => {
  let looks = 0;
  const failTwice = (place: string): void => {
    if (place === where && looks < 3) throw new NetlinkError("test", errno);
  };
  const nftables = { generation: () => 7, commit: () => failTwice("commit") };
  const commit = (): void =>
    commitUnlessDisturbed(nftables, () => {
      looks++;
      failTwice("plan");
      return [];
    });
  if (expected === 1) assertThrows(commit, NetlinkError);
  else commit();
  assertEquals(looks, expected);
}, ([where, errno]) => `${where}, errno ${errno}`);
