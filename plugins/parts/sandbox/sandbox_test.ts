import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { SyscallError } from "../../../ffi/errno.ts";
import { NetNs } from "../../../ffi/netns.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { intercept } from "../../../testing/fault_injector.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { hideBootId } from "../../../tests/_harness/boot_id.ts";
import { findSandbox, openSandbox, persistentIdOf } from "./sandbox.ts";

rootTest("openSandbox() fails with 8 only without a namespace", async (t) => {
  const args = { netns: "/run/netns/any" };
  const rows: [code: number, syscall: string, errno: number][] = [
    [8, "open", 2], // ENOENT
    [8, "open", 3], // ESRCH
    [8, "open", 20], // ENOTDIR
    [8, "setns", 22], // EINVAL
    [11, "open", 24], // EMFILE
    [11, "open", 23], // ENFILE
    [11, "socket", 12], // ENOMEM
    [11, "socket", 105], // ENOBUFS
    [999, "setsockopt", 92], // ENOPROTOOPT: kernels before 4.20
    [999, "open", 13], // EACCES
    [999, "setns", 1], // EPERM
  ];
  for (const [code, syscall, errno] of rows) {
    const failure = new SyscallError(syscall, errno);
    await t.step(`${failure.message} is code ${code}`, () => {
      using stack = new DisposableStack();
      stack.defer(intercept(NetNs, "open", () => {
        throw failure;
      }));
      const error = assertThrows(() => openSandbox(args), CniError);
      assertEquals([error.code, error.details], [code, failure.message]);
    });
  }
});

rootTest("openSandbox() fails with 11 if descriptors run out", () => {
  using hosts = TestHosts.create();
  const script = `
      import { openSandbox } from "${new URL("./sandbox.ts", import.meta.url)}";
      openSandbox({ netns: "/proc/self/ns/net" });
      try {
        for (;;) Deno.openSync("/dev/null");
      } catch {
        // All descriptors are in use.
      }
      try {
        openSandbox({ netns: "/proc/self/ns/net" });
      } catch ({ code, message, details }) {
        console.log(JSON.stringify([code, message, details]));
      }
      Deno.exit();
    `;
  const output = runIn(
    hosts.host,
    "prlimit",
    ...["--nofile=100", Deno.execPath(), "eval", script],
  );
  assertEquals(JSON.parse(output), [
    11,
    'Cannot open network namespace "/proc/self/ns/net"',
    "open: EMFILE",
  ]);
});

rootTest("findSandbox() returns undefined only for a deleted namespace", () => {
  using hosts = TestHosts.create();
  const call = (netns: string): Parameters<typeof findSandbox>[0] => ({
    args: {
      containerId: "c1",
      netns,
      ifName: "eth0",
      args: "",
      path: "",
      netnsOverride: false,
    },
    hostNetns: hosts.host.path,
  });
  const plain = `${hosts.directory}/plain`;
  Deno.writeTextFileSync(plain, "");
  for (const netns of ["", "/nowhere", plain, hosts.host.path]) {
    assertEquals(findSandbox(call(netns)), undefined, netns);
  }
  using stack = new DisposableStack();
  stack.defer(intercept(NetNs, "open", () => {
    throw new SyscallError("open", 24);
  }));
  const error = assertThrows(
    () => findSandbox(call(hosts.sandbox.path)),
    CniError,
  );
  assertEquals(error.code, 11);
});

/** Opens a descriptor of its own process, says which, and waits for the end of stdin. */
const PIDFD_HOLDER = `
import os, sys
print(os.pidfd_open(os.getpid()), flush=True)
sys.stdin.read()
`;

rootTest("openSandbox() refuses a path to a process", async () => {
  // setns(2) takes it for the namespace of that process: here, the host's.
  await using child = new Deno.Command("python3", {
    args: ["-c", PIDFD_HOLDER],
    ...{ stdin: "piped", stdout: "piped" },
  }).spawn();
  const { value } = await child.stdout.getReader().read();
  const fd = new TextDecoder().decode(value).trim();
  const netns = `/proc/${child.pid}/fd/${fd}`;
  const error = assertThrows(() => openSandbox({ netns }), CniError);
  assertEquals([error.code, error.details], [8, "setns: EINVAL"]);
  const args = { netns, netnsOverride: false };
  const call = { args, hostNetns: "/proc/thread-self/ns/net" };
  assertEquals(
    findSandbox(call as Parameters<typeof findSandbox>[0]),
    undefined,
  );
  await child.stdin.close();
  await child.status;
});

rootTest(
  "persistentIdOf() returns undefined without a boot ID",
  () => {
    using hosts = TestHosts.create();
    using sandbox = openSandbox({ netns: hosts.sandbox.path });
    assertMatch(persistentIdOf(sandbox) ?? "", /^[0-9a-f-]{36}\/\d+$/);
    using _hidden = hideBootId();
    assertEquals(persistentIdOf(sandbox), undefined);
  },
);
