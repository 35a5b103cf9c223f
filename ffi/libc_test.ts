import { assert, assertEquals, assertThrows } from "@std/assert";
import { SyscallError } from "./errno.ts";
import { Fd } from "./fd.ts";
import * as libc from "./libc.ts";

/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDONLY = 0, O_DIRECTORY = 0o200000, O_CLOEXEC = 0o2000000;
/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_UNIX = 1, AF_NETLINK = 16, SOCK_DGRAM = 2, SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
/** Source: include/uapi/linux/sched.h. */
const CLONE_NEWNET = 0x40000000;

const FAILING: [name: string, call: () => unknown, message: string][] = [
  ["open", () => libc.open("/nonexistent", O_RDONLY), "open: ENOENT"],
  ["open", () => libc.open("/dev/null/x", O_RDONLY), "open: ENOTDIR"],
  ["close", () => libc.close(-1), "close: EBADF"],
  ["socket", () => libc.socket(-1, 0, 0), "socket: EAFNOSUPPORT"],
  ["socket", () => libc.socket(AF_UNIX, 99, 0), "socket: EINVAL"],
  [
    "setsockopt",
    () => libc.setSocketOption(-1, { level: 1, name: 1, value: 1 }),
    "setsockopt: EBADF",
  ],
  ["send", () => libc.send(-1, new Uint8Array(1), 0), "send: EBADF"],
  ["recv", () => libc.recv(-1, new Uint8Array(1), 0), "recv: EBADF"],
  ["setns", () => libc.setns(-1, CLONE_NEWNET), "setns: EBADF"],
  ["unshare", () => libc.unshare(1), "unshare: EINVAL"],
];

Deno.test("every call throws what errno says", async (t) => {
  for (const [name, call, message] of FAILING) {
    await t.step(message, () => {
      const error = assertThrows(call, SyscallError);
      assertEquals([error.syscall, error.message], [name, message]);
    });
  }
});

Deno.test("errno is that of the call, 10 000 times over", () => {
  const wrong: string[] = [];
  for (let calls = 0; calls < 10_000;) {
    for (const [, call, expected] of FAILING) {
      calls++;
      const { message } = assertThrows(call, SyscallError);
      if (message !== expected) wrong.push(`${expected}: ${message}`);
    }
    // What else sets errno of this thread: a failing call of Deno's own.
    assertThrows(() => Deno.statSync("/nonexistent"));
  }
  assertEquals(wrong, []);
});

Deno.test("open() passes the flags on", () => {
  using fd = new Fd(libc.open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const info = Deno.readTextFileSync(`/proc/self/fdinfo/${fd.number}`);
  const flags = parseInt(/^flags:\s*(\d+)$/m.exec(info)?.[1] ?? "", 8);
  assert((flags & O_DIRECTORY) !== 0 && (flags & O_CLOEXEC) !== 0, info);
  assertThrows(
    () => libc.open("/dev/null", O_DIRECTORY),
    SyscallError,
    "open: ENOTDIR",
  );
});

Deno.test("open() takes names that are not ASCII", () => {
  const folder = Deno.makeTempDirSync();
  try {
    const path = `${folder}/€`;
    Deno.writeTextFileSync(path, "");
    using fd = new Fd(libc.open(path, O_RDONLY | O_CLOEXEC));
    assertEquals(Deno.readLinkSync(`/proc/self/fd/${fd.number}`), path);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("send() and recv() pass lengths, flags and results on", () => {
  using fd = new Fd(libc.socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  // RTM_GETLINK of the loopback by index, as every namespace has it.
  const request = new Uint8Array(32);
  request.set([32, 0, 0, 0, 18, 0, 1, 0]);
  request.set([1], 20);
  assertEquals(libc.send(fd.number, request, 0), request.length);
  const truncated = new Uint8Array(8).fill(0xff);
  assertEquals(libc.recv(fd.number, truncated, 0), truncated.length);
  assertEquals(truncated.subarray(4, 6), new Uint8Array([16, 0]));
  assertThrows(
    () => libc.recv(fd.number, truncated, MSG_DONTWAIT),
    SyscallError,
    "recv: EAGAIN",
  );
});
