import { assertEquals, assertThrows } from "@std/assert";
import { Ip } from "../../net/ip.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { SyscallError } from "../../ffi/errno.ts";
import { waitReadable } from "../../ffi/libc.ts";
import { EchoSocket } from "./echo_socket.ts";

rootTest("EchoSocket receives its own replies only", async () => {
  using hosts = TestHosts.create();
  for (const text of ["127.0.0.1", "::1"]) {
    const target = { destination: Ip.parse(text), link: "lo" };
    using socket = EchoSocket.open(hosts.host, target);
    using other = EchoSocket.open(hosts.host, target);
    other.send();
    assertEquals(await waitReadable(socket.fd, 10_000), 1);
    assertEquals([socket.hasReply(), other.hasReply()], [false, true]);
    socket.send();
    assertEquals(await waitReadable(socket.fd, 10_000), 1);
    assertEquals([socket.hasReply(), other.hasReply()], [true, false]);
  }
});

rootTest("EchoSocket needs a route, a link and its source", () => {
  using hosts = TestHosts.create();
  const rows = [
    [{ destination: Ip.parse("192.0.2.1") }, "ENETUNREACH"],
    [{ destination: Ip.parse("127.0.0.1"), link: "no0" }, "ENODEV"],
    [
      {
        destination: Ip.parse("127.0.0.1"),
        source: Ip.parse("192.0.2.1"),
      },
      "EADDRNOTAVAIL",
    ],
  ] as const;
  for (const [target, errno] of rows) {
    const error = assertThrows(
      () => EchoSocket.open(hosts.host, target),
      SyscallError,
    );
    assertEquals(error.errno, errno);
  }
});
