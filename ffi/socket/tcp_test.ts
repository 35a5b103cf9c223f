import { assert, assertEquals, assertThrows } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { Ip } from "../../net/ip.ts";
import { SyscallError } from "../errno.ts";
import { inNetns } from "../netns.ts";
import { exchange } from "./tcp.ts";

const TEXT = new TextEncoder().encode("hello");

rootTest("exchange() gives up in time, and when nobody listens", () => {
  using hosts = TestHosts.create();
  const address = Ip.parse("127.0.0.1");
  inNetns(hosts.host, () => {
    const none = { address, port: 9, limitMs: 60_000 };
    const refused = assertThrows(() => exchange(none, TEXT), SyscallError);
    assertEquals(refused.errno, "ECONNREFUSED");
  });
  // It is accepted by the kernel, and nobody reads.
  using listener = inNetns(
    hosts.host,
    () => Deno.listen({ hostname: "127.0.0.1", port: 0 }),
  );
  const { port } = listener.addr as Deno.NetAddr;
  inNetns(hosts.host, () => {
    for (const request of [TEXT, new Uint8Array(64 * 1024 * 1024)]) {
      const late = assertThrows(
        () => exchange({ address, port, limitMs: 20 }, request),
        SyscallError,
      );
      assert(["EAGAIN", "EINPROGRESS"].includes(late.errno), late.errno);
    }
  });
});
