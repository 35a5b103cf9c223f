import { assertEquals } from "@std/assert";
import { findFileId } from "../../cni/files/same_file.ts";
import { findDifference, readOwnWorld } from "./own_world.ts";
import type { CallRequest } from "./protocol.ts";

const own = readOwnWorld("b1", "/proc/self/ns/net");
const { build: _, ...shared } = own;

/** A call of the same world, with changes. */
function request(
  changes: Partial<Omit<CallRequest, "world">> & {
    world?: Partial<CallRequest["world"]>;
  } = {},
): CallRequest {
  return {
    build: "b1",
    name: "ptp",
    exe: "1:1",
    env: {},
    stdin: new TextEncoder().encode("{}"),
    ...changes,
    world: { ...shared, netns: null, ...changes.world },
  };
}

Deno.test("findDifference() finds what caller and daemon do not share", async (t) => {
  const NETNS = "/proc/self/ns/net";
  const netns = findFileId(NETNS) ?? null;
  const rows: [string, Parameters<typeof request>[0], string | undefined][] = [
    ["nothing", {}, undefined],
    ["the build", { build: "b2" }, "another build"],
    ["the host", { world: { host: "1:1" } }, "another network namespace"],
    ["the mounts", { world: { mnt: "1:1" } }, "another mount namespace"],
    ["the root", { world: { root: "1:1" } }, "another root folder"],
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
    ["no sandbox", { env: { CNI_NETNS: "/no/such/file" } }, undefined],
    [
      "the same sandbox",
      { env: { CNI_NETNS: NETNS }, world: { netns } },
      undefined,
    ],
  ];
  for (const [name, changes, expected] of rows) {
    await t.step(name, () => {
      assertEquals(findDifference(own, request(changes)), expected);
    });
  }
});

Deno.test("findDifference(): the working folder matters to relative paths only", async (t) => {
  const other = "another working folder";
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
    [{}, "not an object", undefined],
  ];
  for (const [env, config, expected] of rows) {
    const text = JSON.stringify(config);
    const stdin = new TextEncoder().encode(text);
    await t.step(`${JSON.stringify(env)} ${text}`, () => {
      const world = { cwd: "/elsewhere" };
      const found = findDifference(own, request({ env, stdin, world }));
      assertEquals(found, expected);
      assertEquals(findDifference(own, request({ env, stdin })), undefined);
    });
  }
});
