import { assertEquals } from "@std/assert";
import { findFileId } from "../../base/files/same_file.ts";
import {
  type CallerAttributes,
  findDifference,
  readCallerAttributes,
  readOwnAttributes,
} from "./caller_check.ts";
import type { CallRequest } from "../wire/request.ts";

const own = readOwnAttributes("b1", "/proc/self/ns/net");
const { build: _, ...shared } = own;

/** Compares a call from a process with the same attributes, with changes. */
function compare(
  { attributes, ...changes }: Partial<CallRequest> & {
    attributes?: Partial<CallerAttributes>;
  } = {},
): string | undefined {
  return findDifference(own, {
    build: "b1",
    env: {},
    stdin: new TextEncoder().encode("{}"),
    ...changes,
  }, { ...shared, exe: "1:1", ...attributes });
}

Deno.test("findDifference() reports each difference between caller and daemon", async (t) => {
  const sandbox = (path: string) => ({ env: { CNI_NETNS: path } });
  const rows: [string, Parameters<typeof compare>[0], string | undefined][] = [
    ["nothing", {}, undefined],
    ["the build", { build: "b2" }, "another build"],
    ["the host", { attributes: { host: "1:1" } }, "another network namespace"],
    ["the mounts", { attributes: { mnt: "1:1" } }, "another mount namespace"],
    ["the root", { attributes: { root: "1:1" } }, "another root directory"],
    ["the users", { attributes: { user: "1:1" } }, "another user namespace"],
    ["the umask", { attributes: { umask: 0o777 } }, "another umask"],
    ["no sandbox", { env: { CNI_NETNS: "/no/such/file" } }, undefined],
    ["the host as the sandbox", sandbox("/proc/self/ns/net"), undefined],
    ["a thread's", sandbox("/proc/thread-self/ns/net"), undefined],
    ...[
      "/proc/self/fd/3",
      "/proc/thread-self/fd/3",
      "/proc/self/task/1/ns/net",
      "/proc/self/root/run/netns/a",
      "/dev/fd/3",
      "/proc//self/./fd/3",
      "/run/../proc/self/fd/3",
    ].map((path): [string, Parameters<typeof compare>[0], string] => [
      path,
      sandbox(path),
      "CNI_NETNS is another file",
    ]),
  ];
  for (const [name, changes, expected] of rows) {
    await t.step(name, () => {
      assertEquals(compare(changes), expected);
    });
  }
});

Deno.test("findDifference() compares the working directory for relative paths only", async (t) => {
  const other = "another working directory";
  const rows: [
    env: CallRequest["env"],
    stdin: unknown,
    expected: string | undefined,
  ][] = [
    [{ CNI_PATH: "/a:/b" }, { ipam: { dataDir: "/x" } }, undefined],
    [{ CNI_PATH: "/a:b" }, {}, other],
    [{ CNI_PATH: "/a" }, { ipam: { dataDir: "x" } }, other],
    [{}, { plugins: [{ IPAM: { DataDir: "./x" } }] }, other],
    [{}, { ipam: { dataDir: "", type: "host-local" } }, undefined],
    [{}, { type: "flannel", subnetFile: "subnet.env" }, other],
    [{}, { ipam: { configuration_path: "whereabouts.conf" } }, other],
    [{}, { ipam: { daemonSocketPath: "dhcp.sock" } }, other],
    [{}, { type: "macvlan", master: "eth0" }, undefined],
    [{}, { type: "multus", clusterNetwork: "pods" }, undefined],
    [{}, { type: "multus", clusterNetwork: "net.d/pods.conf" }, other],
    [{}, { type: "multus", defaultNetworks: ["a", "/b", "c/d"] }, other],
    [{}, "not an object", undefined],
  ];
  for (const [env, config, expected] of rows) {
    const text = JSON.stringify(config);
    const stdin = new TextEncoder().encode(text);
    await t.step(`${JSON.stringify(env)} ${text}`, () => {
      const attributes = { cwd: "/elsewhere" };
      assertEquals(compare({ env, stdin, attributes }), expected);
      assertEquals(compare({ env, stdin }), undefined);
    });
  }
});

Deno.test("findDifference() reports a capability that the caller lacks", () => {
  const NET_ADMIN = 1n << 12n, SYS_ADMIN = 1n << 21n, CHOWN = 1n;
  const both = NET_ADMIN | SYS_ADMIN;
  const rows: [own: bigint, caller: bigint, isMissing: boolean][] = [
    [both | CHOWN, both, false],
    [both, SYS_ADMIN | CHOWN, true],
    [both, NET_ADMIN, true],
    [NET_ADMIN, NET_ADMIN, false],
    [0n, 0n, false],
  ];
  for (const [capabilities, callers, isMissing] of rows) {
    const found = findDifference({ ...own, capabilities }, {
      build: "b1",
      env: {},
      stdin: new Uint8Array(),
    }, { ...shared, capabilities: callers, exe: "1:1" });
    assertEquals(found, isMissing ? "missing capabilities" : undefined);
  }
});

Deno.test("readCallerAttributes() reads a process's namespaces, root and user", () => {
  assertEquals(readCallerAttributes(`/proc/${Deno.pid}`), {
    ...shared,
    exe: findFileId("/proc/self/exe") ?? "",
  });
});
