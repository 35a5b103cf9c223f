import { assert, assertEquals, assertThrows } from "@std/assert";
import { SyscallError } from "./errno.ts";
import { Fd } from "./file/fd.ts";
import * as libc from "./libc.ts";
import { collectHeap } from "../daemon/server/heap_collector.ts";
import { moduleCommand } from "../tests/_harness/as_module.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDONLY = 0, O_DIRECTORY = 0o200000, O_CLOEXEC = 0o2000000;
/** Source: include/linux/socket.h, include/linux/net.h. */
const AF_UNIX = 1,
  AF_NETLINK = 16,
  SOCK_STREAM = 1,
  SOCK_DGRAM = 2,
  SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
/** Source: include/uapi/asm-generic/socket.h. */
const SOL_SOCKET = 1, SO_RCVTIMEO = 20;
/** Source: include/uapi/linux/sched.h. */
const CLONE_NEWNET = 0x40000000, CLONE_NEWNS = 0x20000;

const FAILING: [name: string, call: () => unknown, message: string][] = [
  ["open", () => libc.open("/nonexistent", O_RDONLY), "open: ENOENT"],
  ["open", () => libc.open("/dev/null/x", O_RDONLY), "open: ENOTDIR"],
  ["open", () => libc.open("/none", O_RDONLY, "open it"), "open it: ENOENT"],
  ["close", () => libc.close(-1), "close: EBADF"],
  ["flock", () => libc.tryLock(-1), "flock: EBADF"],
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
  ["ioctl", () => libc.namespaceType(-1), "ioctl: EBADF"],
];

testRows("calls throw what errno says", FAILING, ([name, call, message]) => {
  const error = assertThrows(call, SyscallError);
  assertEquals([error.syscall, error.message], [name, message]);
}, ([, , message]) => message);

Deno.test("errno belongs to the call, 10 000 times in a row", () => {
  const wrong: string[] = [];
  for (let calls = 0; calls < 10_000;) {
    for (const [, call, expected] of FAILING) {
      calls++;
      const { message } = assertThrows(call, SyscallError);
      if (message !== expected) wrong.push(`${expected}: ${message}`);
    }
    // A failing call of Deno itself also sets this thread's errno.
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
  const directory = Deno.makeTempDirSync();
  try {
    const path = `${directory}/€`;
    Deno.writeTextFileSync(path, "");
    using fd = new Fd(libc.open(path, O_RDONLY | O_CLOEXEC));
    assertEquals(Deno.readLinkSync(`/proc/self/fd/${fd.number}`), path);
  } finally {
    Deno.removeSync(directory, { recursive: true });
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

Deno.test("recv() waits once for the time limit of its socket", () => {
  using fd = new Fd(libc.socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const value = new Uint8Array(new BigUint64Array([2n, 0n]).buffer);
  const option = { level: SOL_SOCKET, name: SO_RCVTIMEO, value };
  libc.setSocketOptionBytes(fd.number, option);
  const startMs = performance.now();
  assertThrows(
    () => libc.recv(fd.number, new Uint8Array(1), 0),
    SyscallError,
    "recv: EAGAIN",
  );
  const waitedMs = performance.now() - startMs;
  // Twice would be 4 s, three times 6 s.
  assert(waitedMs < 4000, `${waitedMs} ms`);
});

Deno.test("namespaceType() tells one kind of namespace from another", () => {
  const typeOf = (path: string): number => {
    using fd = new Fd(libc.open(path, O_RDONLY | O_CLOEXEC));
    return libc.namespaceType(fd.number);
  };
  assertEquals(typeOf("/proc/self/ns/net"), CLONE_NEWNET);
  assertEquals(typeOf("/proc/self/ns/mnt"), CLONE_NEWNS);
  assertThrows(() => typeOf("/dev/null"), SyscallError, "ioctl: ENOTTY");
});

Deno.test("execvpe() goes on as another program", async (t) => {
  const libcUrl = JSON.stringify(import.meta.resolve("./libc.ts"));
  const rows: [name: string, exec: string, code: number, stdout: string][] = [
    [
      "with its arguments and environment",
      '{ file: "sh", argv: ["sh", "-c", "echo $0 $1 $A; env | wc -l", "ü", ""], env }',
      0,
      "ü 1\n",
    ],
    [
      "that a closed pipe ends",
      '{ file: "sh", argv: ["sh", "-c", "kill -PIPE $$"], env }',
      128 + 13,
      "",
    ],
    [
      "with fewer files",
      '{ file: "sh", argv: ["sh", "-c", "ulimit -Sn"], env, ' +
      "openFiles: { soft: 99n, hard: 100n } }",
      0,
      "99\n",
    ],
    [
      "of many arguments",
      '{ file: "sh", argv: ["sh", "-c", "echo $#", ...Array(5000).fill("x")], env }',
      0,
      "4999\n",
    ],
    ["that is not there", '{ file: "nothere", argv: ["x"], env }', 7, "ENOENT"],
  ];
  await eachRow(t, rows, async ([, exec, code, stdout]) => {
    const script = `import { execvpe } from ${libcUrl};
        const env = ["A=1\\0"].map((text) => new TextEncoder().encode(text));
        try { execvpe(${exec}); } catch ({ errno }) {
          Deno.stdout.writeSync(new TextEncoder().encode(errno)); Deno.exit(7);
        }`;
    const ended = await new Deno.Command(Deno.execPath(), {
      args: ["eval", "--no-config", "--ext=ts", script],
      // A directory that cannot be searched makes it EACCES.
      env: { PATH: "/usr/bin:/bin" },
    }).output();
    const printed = new TextDecoder().decode(ended.stdout);
    assertEquals([ended.code, printed.slice(0, stdout.length)], [code, stdout]);
  });
});

// Signals go to a process's main thread, where tests do not run.
Deno.test("isReadable() is not disturbed by signals", async () => {
  const script = `
    import * as libc from "${import.meta.resolve("./libc.ts")}";
    const fd = libc.socket(${AF_UNIX}, ${SOCK_DGRAM | SOCK_CLOEXEC}, 0);
    Deno.addSignalListener("SIGUSR1", () => {});
    const loop = "while kill -USR1 " + Deno.pid + "; do :; done 2> /dev/null";
    const sender = new Deno.Command("sh", { args: ["-c", loop] }).spawn();
    const endMs = performance.now() + 300;
    const found = new Set();
    while (performance.now() < endMs) found.add(libc.isReadable(fd));
    sender.kill("SIGKILL");
    await sender.status;
    console.log([...found].join());
  `;
  const { stdout, stderr } = await (await moduleCommand(script)).output();
  const decoder = new TextDecoder();
  assertEquals(decoder.decode(stdout), "false\n", decoder.decode(stderr));
});

/** How often each call is made while signals come. */
const STORM_CALLS = Number(Deno.env.get("CNI_SIGNAL_STORM") ?? 10_000);

// The runtime's handler writes to a pipe, which is full after some hundred
// signals, as the script does not return to the event loop.
Deno.test("libc calls fail with their own errno, whatever signals come", async () => {
  const script = `
    import * as libc from "${import.meta.resolve("./libc.ts")}";
    const file = libc.open("/dev/null", 0);
    const calls = {
      ENOENT: () => libc.open("/nowhere/at/all", 0),
      EBADF: () => libc.setns(-1, 0),
      ENOTSOCK: () => libc.recv(file, new Uint8Array(1), 0),
      EAFNOSUPPORT: () => libc.socket(9999, 1, 0),
      ENOTTY: () => libc.controlWithNumber(file, 0x5413n, 0),
      EPERM: () => libc.controlEpoll(file, 1, {
        fd: file,
        event: new Uint8Array(12),
      }),
      EISDIR: () => libc.open("/", 1),
      close: () => libc.close(-1),
      flock: () => libc.tryLock(-1),
    };
    const want = { close: "EBADF", flock: "EBADF" };
    Deno.addSignalListener("SIGUSR1", () => {});
    const loop = "while kill -USR1 " + Deno.pid + "; do :; done 2> /dev/null";
    const senders = [1, 2].map(() =>
      new Deno.Command("sh", { args: ["-c", loop] }).spawn()
    );
    const wrong = [];
    for (let count = 0; count < ${STORM_CALLS}; count++) {
      for (const [name, call] of Object.entries(calls)) {
        try {
          call();
          wrong.push(name + " succeeded");
        } catch (error) {
          if (error.errno !== (want[name] ?? name)) {
            wrong.push(name + ": " + error.errno);
          }
        }
      }
    }
    for (const sender of senders) sender.kill("SIGKILL");
    for (const sender of senders) await sender.status;
    console.log(wrong.length, wrong.slice(0, 5).join());
  `;
  const { stdout, stderr } = await (await moduleCommand(script)).output();
  const decoder = new TextDecoder();
  assertEquals(decoder.decode(stdout), "0 \n", decoder.decode(stderr));
});

Deno.test("sendInBackground() holds the message until it is sent", async () => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const path = `${directory}/test.sock`;
    using listener = Deno.listen({ transport: "unix", path });
    using fd = new Fd(libc.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    libc.connect(
      fd.number,
      Uint8Array.of(AF_UNIX, 0, ...new TextEncoder().encode(path)),
    );
    using peer = await listener.accept();
    const length = 4 * 1024 * 1024;
    const send = (): [WeakRef<Uint8Array>, PromiseLike<number>] => {
      const message = new Uint8Array(length).fill(1);
      return [
        new WeakRef(message),
        libc.sendInBackground(fd.number, message),
      ];
    };
    const [message, sent] = send();
    // A weak reference holds until the end of the task.
    await new Promise((resolve) => setTimeout(resolve));
    await collectHeap();
    assert(message.deref() !== undefined);
    const buffer = new Uint8Array(length);
    for (let left = length; left > 0;) {
      left -= await peer.read(buffer) ?? left;
    }
    assertEquals(await sent, length);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("unmapProgramPages() unmaps most pages of files, and the program goes on", async () => {
  const readKib = (): number => {
    const status = Deno.readTextFileSync("/proc/self/status");
    return Number(/^RssFile:\s+(\d+) kB$/m.exec(status)?.[1]);
  };
  const before = readKib();
  libc.unmapProgramPages();
  const after = readKib();
  assert(after < before / 2, `${before} KiB, then ${after} KiB`);
  // Code that was mapped, and code that was not.
  const { gunzipSync, gzipSync } = await import("node:zlib");
  const text = "a".repeat(100_000);
  assertEquals(gunzipSync(gzipSync(text)).toString(), text);
});
