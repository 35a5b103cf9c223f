import { assertEquals } from "@std/assert";
import { findFileId } from "../../cni/files/same_file.ts";
import {
  type CallerWorld,
  findDifference,
  readCallerWorld,
  readOwnWorld,
} from "./own_world.ts";
import type { CallRequest } from "../protocol/request.ts";

const own = readOwnWorld("b1", "/proc/self/ns/net");
const { build: _, ...shared } = own;

/** Compares a call of the same world, with changes. */
function compare(
  { world, ...changes }: Partial<CallRequest> & {
    world?: Partial<CallerWorld>;
  } = {},
): string | undefined {
  return findDifference(own, {
    build: "b1",
    env: {},
    stdin: new TextEncoder().encode("{}"),
    ...changes,
  }, { ...shared, exe: "1:1", netns: null, ...world });
}

Deno.test("findDifference() finds what caller and daemon do not share", async (t) => {
  const NETNS = "/proc/self/ns/net";
  const netns = findFileId(NETNS) ?? null;
  const rows: [string, Parameters<typeof compare>[0], string | undefined][] = [
    ["nothing", {}, undefined],
    ["the build", { build: "b2" }, "another build"],
    ["the host", { world: { host: "1:1" } }, "another network namespace"],
    ["the mounts", { world: { mnt: "1:1" } }, "another mount namespace"],
    ["the root", { world: { root: "1:1" } }, "another root directory"],
    ["the users", { world: { user: "1:1" } }, "another user namespace"],
    ["the umask", { world: { umask: 0o777 } }, "another umask"],
    [
      "the sandbox",
      { env: { CNI_NETNS: NETNS }, world: { netns: "1:1" } },
      "CNI_NETNS is another file",
    ],
    [
      "a sandbox that only the caller sees",
      { env: { CNI_NETNS: "/no/such/file" }, world: { netns } },
      "CNI_NETNS is another file",
    ],
    [
      "a descriptor of the process",
      { env: { CNI_NETNS: "/proc/self/fd/999" } },
      "CNI_NETNS is another file",
    ],
    ["no sandbox", { env: { CNI_NETNS: "/no/such/file" } }, undefined],
    [
      "the same sandbox",
      { env: { CNI_NETNS: NETNS }, world: { netns } },
      undefined,
    ],
  ];
  for (const [name, changes, expected] of rows) {
    await t.step(name, () => {
      assertEquals(compare(changes), expected);
    });
  }
});

Deno.test("findDifference(): the working directory matters to relative paths only", async (t) => {
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
      const world = { cwd: "/elsewhere" };
      assertEquals(compare({ env, stdin, world }), expected);
      assertEquals(compare({ env, stdin }), undefined);
    });
  }
});

Deno.test("findDifference() lends no capability to a caller", () => {
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
    }, { ...shared, capabilities: callers, exe: "1:1", netns: null });
    assertEquals(found, isMissing ? "missing capabilities" : undefined);
  }
});

Deno.test("readCallerWorld() reads what a process sees", () => {
  const env = { CNI_NETNS: "/proc/self/ns/net" };
  assertEquals(readCallerWorld(`/proc/${Deno.pid}`, { env }), {
    ...shared,
    exe: findFileId("/proc/self/exe") ?? "",
    netns: findFileId("/proc/self/ns/net") ?? "",
  });
});
