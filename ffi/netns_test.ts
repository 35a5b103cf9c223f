import {
  assert,
  assertEquals,
  assertNotEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { needsUserNamespaces, rootTest } from "../testing/capabilities.ts";
import { ipJson } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { SyscallError } from "./errno.ts";
import { inNetns, isMissingNetns, NetNs, unbindNetNs } from "./netns.ts";
import { OWN_NETNS } from "./own_netns.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import { WriteLease } from "../tests/_harness/write_lease.ts";

/** Names the namespace of this thread, such as `net:[4026531840]`. */
function currentName(): string {
  return Deno.readLinkSync(OWN_NETNS);
}

/** Names an open namespace. */
function nameOf(netns: NetNs): string {
  return Deno.readLinkSync(`/proc/self/fd/${netns.fd}`);
}

/** Lists the links of a namespace. */
function namesOfLinks(netns: NetNs): string[] {
  return ipJson(netns, "link").map(({ ifname }: { ifname: string }) => ifname);
}

Deno.test("NetNs.current() opens the namespace of this thread", () => {
  using current = NetNs.current();
  assertEquals(nameOf(current), currentName());
  assertEquals(current.path, OWN_NETNS);
});

Deno.test("NetNs closes its descriptor once", () => {
  const current = NetNs.current();
  const { fd } = current;
  current[Symbol.dispose]();
  assertThrows(() => Deno.readLinkSync(`/proc/self/fd/${fd}`));
  current[Symbol.dispose]();
  assertThrows(() => current.fd, Error, "Cannot use a closed descriptor");
});

rootTest("NetNs.create() makes a namespace and stays outside", () => {
  const before = currentName();
  using created = NetNs.create();
  assertEquals(currentName(), before);
  assertNotEquals(nameOf(created), before);
  assertEquals(namesOfLinks(created), ["lo"]);
});

rootTest("NetNs.create() gives the namespace a path", () => {
  using created = NetNs.create();
  using again = NetNs.open(created.path);
  assertEquals(nameOf(again), nameOf(created));
});

rootTest("inNetns() works inside and returns", () => {
  using hosts = TestHosts.create();
  const before = currentName();
  const inside = inNetns(hosts.host, currentName);
  assertEquals(inside, nameOf(hosts.host));
  assertEquals(currentName(), before);
});

rootTest("inNetns() returns when the work throws", () => {
  using hosts = TestHosts.create();
  const before = currentName();
  const error = new Error("from inside");
  const thrown = assertThrows(() =>
    inNetns(hosts.host, () => {
      throw error;
    })
  );
  assertEquals(thrown, error);
  assertEquals(currentName(), before);
});

rootTest("inNetns() nests", () => {
  using hosts = TestHosts.create();
  const names = inNetns(hosts.host, () => {
    const inner = inNetns(hosts.sandbox, currentName);
    return [inner, currentName()];
  });
  assertEquals(names, [nameOf(hosts.sandbox), nameOf(hosts.host)]);
});

rootTest("inNetns() leaves descriptors as they were", () => {
  using hosts = TestHosts.create();
  const count = (): number => [...Deno.readDirSync("/proc/self/fd")].length;
  const before = count();
  for (let i = 0; i < 100; i++) inNetns(hosts.host, () => {});
  assertEquals(count(), before);
});

Deno.test("inNetns() refuses asynchronous work when it is compiled", () => {
  const later = async (): Promise<number> => await Promise.resolve(1);
  const thenable = (): PromiseLike<number> => Promise.resolve(1);
  const refused = (netns: NetNs): unknown[] => [
    // @ts-expect-error -- an async function returns before its work is done
    inNetns(netns, later),
    // @ts-expect-error -- whatever has then()
    inNetns(netns, thenable),
  ];
  const accepted = (netns: NetNs): number => inNetns(netns, () => 1);
  assertEquals([refused.length, accepted.length], [1, 1]);
});

/** Runs a command as root of a new user namespace. */
function runAsOtherRoot(name: string, ...args: string[]): Deno.CommandOutput {
  return new Deno.Command("unshare", {
    args: ["--user", "--map-root-user", name, ...args],
  }).outputSync();
}

rootTest(
  "a thread leaves no namespace to which it cannot return",
  needsUserNamespaces(),
  () => {
    // Root of a user namespace may leave the machine's network namespace, but
    // not enter it.
    const module = new URL("netns.ts", import.meta.url);
    const script = `import { NetNs } from "${module}";
      const read = () => Deno.readLinkSync("${OWN_NETNS}");
      const before = read();
      try { NetNs.create(); } catch (error) {
        console.log(error.message, read() === before);
      }`;
    const { stdout, stderr } = runAsOtherRoot(
      Deno.execPath(),
      "eval",
      "--no-config",
      script,
    );
    assertEquals(
      new TextDecoder().decode(stdout),
      "setns: EPERM true\n",
      new TextDecoder().decode(stderr),
    );
  },
);

rootTest(
  "a thread that cannot return to its namespace ends the process",
  () => {
    const module = new URL("netns.ts", import.meta.url);
    const dropping = new URL(
      "../tests/_harness/drop_capabilities.ts",
      import.meta.url,
    );
    const script = `import { inNetns, NetNs } from "${module}";
    import { dropCapabilities } from "${dropping}";
    using netns = NetNs.create();
    try { inNetns(netns, dropCapabilities); } catch { /* continues */ }
    console.log("continued");`;
    const { code, stdout, stderr } = new Deno.Command(Deno.execPath(), {
      args: ["eval", "--no-config", script],
    }).outputSync();
    assertEquals([code, new TextDecoder().decode(stdout)], [1, ""]);
    assertEquals(
      new TextDecoder().decode(stderr),
      "Cannot return to the namespace this thread came from: " +
        "SyscallError: setns: EPERM\n",
    );
  },
);

/** Returns the error of opening and entering a path. */
function enter(path: string): unknown {
  try {
    using netns = NetNs.open(path);
    inNetns(netns, () => {});
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Creates an empty file. */
function makeFile({ directory }: TestHosts): string {
  const path = `${directory}/netns`;
  Deno.writeTextFileSync(path, "");
  return path;
}

/** Returns the number of a process that has ended. */
function deadPid(): string {
  const { stdout } = new Deno.Command("sh", { args: ["-c", "echo $$"] })
    .outputSync();
  return new TextDecoder().decode(stdout).trim();
}

rootTest("isMissingNetns() knows how namespaces are missing", async (t) => {
  using hosts = TestHosts.create();
  const plainFile = makeFile(hosts);
  const socket = `${hosts.directory}/socket`;
  using _listener = Deno.listen({ transport: "unix", path: socket });
  const rows: [name: string, path: string, error: string][] = [
    ["no such path", `${hosts.directory}/none`, "open: ENOENT"],
    ["a process that has ended", `/proc/${deadPid()}/ns/net`, "open: ENOENT"],
    ["a path through a file", `${plainFile}/net`, "open: ENOTDIR"],
    ["the file a namespace was mounted on", plainFile, "setns: EINVAL"],
    ["a directory", hosts.directory, "setns: EINVAL"],
    ["a socket", socket, "open: ENXIO"],
    // There is a namespace, but nothing of a network is in it to be cleaned up.
    ["a namespace of another kind", "/proc/self/ns/uts", "setns: EINVAL"],
  ];
  await eachRow(t, rows, ([, path, message]) => {
    const error = enter(path);
    assert(error instanceof SyscallError, String(error));
    assertEquals(error.message, message);
    assertEquals(isMissingNetns(error), true);
  });
  await t.step("a namespace", () => {
    assertEquals(enter(hosts.sandbox.path), undefined);
  });
});

rootTest("NetNs.openUntrusted() opens nothing but namespaces", async (t) => {
  using hosts = TestHosts.create();
  const leased = makeFile(hosts);
  const link = `${hosts.directory}/link`;
  await Deno.symlink(leased, link);
  using lease = new WriteLease(leased);
  const rows: [name: string, path: string, error: string][] = [
    ["a file that another program has leased", leased, "setns: EINVAL"],
    ["a link to it", link, "setns: EINVAL"],
    ["a device", "/dev/null", "setns: EINVAL"],
    ["no such path", `${hosts.directory}/none`, "open: ENOENT"],
    ["a path through a file", `${leased}/net`, "open: ENOTDIR"],
  ];
  await eachRow(t, rows, ([, path, message]) => {
    const error = assertThrows(() => NetNs.openUntrusted(path), SyscallError);
    assertEquals(error.message, message);
    assertEquals(isMissingNetns(error), true);
  });
  assertEquals(lease.isBroken, false);
  await t.step("a namespace", () => {
    using opened = NetNs.openUntrusted(hosts.sandbox.path);
    assertEquals(inNetns(opened, currentName), nameOf(hosts.sandbox));
  });
  await t.step("a file that NetNs.open() opens", () => {
    assertThrows(() => NetNs.open(leased), SyscallError, "open: EAGAIN");
    assertEquals(lease.isBroken, true);
  });
});

testRows<[string, unknown]>("isMissingNetns() is false for anything else", [
  ["open: EACCES", new SyscallError("open", 13)],
  ["open: EMFILE", new SyscallError("open", 24)],
  ["setns: EPERM", new SyscallError("setns", 1)],
  ["setns: ENOENT", new SyscallError("setns", 2)],
  ["mount: EINVAL", new SyscallError("mount", 22)],
  ["other class", new Error("open: ENOENT")],
  ["undefined", undefined],
], ([, error]) => assertEquals(isMissingNetns(error), false));

rootTest("NetNs.bindTo() keeps a namespace by a path", () => {
  using hosts = TestHosts.create();
  const path = makeFile(hosts);
  let name: string;
  {
    using created = NetNs.create();
    created.bindTo(path);
    name = nameOf(created);
  }
  try {
    using opened = NetNs.open(path);
    assertEquals(inNetns(opened, currentName), name);
  } finally {
    unbindNetNs(path);
  }
  assertEquals(Deno.statSync(path).size, 0);
  assertEquals(isMissingNetns(enter(path)), true);
});

rootTest("NetNs.bindTo() and unbindNetNs() say what is wrong", () => {
  using hosts = TestHosts.create();
  const none = `${hosts.directory}/none`;
  const message = (work: () => void): string =>
    assertThrows(work, SyscallError).message;
  assertStringIncludes(
    message(() => hosts.host.bindTo(none)),
    "mount: ENOENT",
  );
  assertStringIncludes(message(() => unbindNetNs(none)), "umount2: ENOENT");
  assertStringIncludes(
    message(() => unbindNetNs(hosts.directory)),
    "umount2: EINVAL",
  );
});
