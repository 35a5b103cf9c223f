import { assert, assertEquals } from "@std/assert";
import * as z from "zod/mini";
import { hostLocal } from "../ipam/host_local/plugin.ts";
import {
  type HostLocalConfig,
  hostLocalSchema,
} from "../ipam/host_local/schema.ts";
import { ptp } from "../plugins/ptp/plugin.ts";
import { canUseNetns } from "../tests/_harness/capabilities.ts";
import { TestHosts } from "../tests/_harness/test_hosts.ts";
import { COMMANDS, type Environment } from "./args.ts";
import { CniError, ErrorCode } from "./error.ts";
import type { DispatchOutput, Invoker } from "./invoke/invoker.ts";
import type { Schema } from "./json.ts";
import type { Plugin } from "./plugin.ts";
import { dispatch } from "./skel.ts";
import { isSpecVersion, SPEC_VERSIONS } from "./version.ts";

/** Another one may be chosen, to look for more or to see a failure again. */
const SEED = Number(Deno.env.get("CNI_FUZZ_SEED") ?? 1);
const RUNS = 5000;
const LIMIT_MS = 5000;

const KNOWN_CODES: readonly number[] = Object.values(ErrorCode);

/** Random numbers that a seed repeats. */
interface Random {
  /** Returns an integer from 0 to below `limit`. */
  below(limit: number): number;
  /** Says yes once in `times`. */
  once(times: number): boolean;
  /** Picks one of several. */
  pick<T>(items: readonly T[]): T;
}

/** Source: the mulberry32 generator, which is in the public domain. */
function createRandom(seed: number): Random {
  let state = seed;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  return {
    below,
    once: (times) => below(times) === 0,
    pick<T>(items: readonly T[]): T {
      assert(items.length > 0);
      return items[below(items.length)] as T;
    },
  };
}

const TEXTS = ["", " ", "\0", "\n", "%%", "..", "a/b", "ä".repeat(9), "\ud800"]
  .concat("__proto__", "a".repeat(300), "eth0", "1", "true", "none", "{}");

/** Values of all types that JSON has, some of which fit somewhere. */
const VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  1e300,
  [],
  [null],
  [[]],
  {},
  { type: 5 },
  { type: "none" },
  ...TEXTS,
  ...SPEC_VERSIONS,
  "1.1",
  "9.8.7",
  "10.1.2.3",
  "10.1.2.3/24",
  "10.1.2.3/33",
  "0.0.0.0/0",
  "::/0",
  "2001:db8::5/127",
  [{ containerID: "c", ifname: "eth0" }],
  [[{ subnet: "10.0.0.0/30" }], [{ subnet: "2001:db8::/64" }]],
  [{ dst: "0.0.0.0/0", gw: "10.1.2.1" }],
  { ips: [{ address: "10.1.2.3/24" }] },
  { cniVersion: "0.2.0", ip4: { ip: "10.1.2.3/24" } },
];

/** Returns an environment, in most cases one that a runtime might set. */
function makeEnvironment(
  random: Random,
  netnsPaths: readonly string[],
): Environment {
  const pools: Record<string, readonly string[]> = {
    CNI_COMMAND: [...COMMANDS, ...COMMANDS, ...COMMANDS, "VERSION", "NOPE"],
    CNI_CONTAINERID: ["c", "a51debf7e1eb"],
    CNI_NETNS: netnsPaths,
    CNI_IFNAME: ["eth0", "lo", "net1"],
    CNI_ARGS: ["", "IP=10.1.2.9", "IgnoreUnknown=1;A=b"],
    CNI_PATH: ["/nonexistent"],
    CNI_NETNS_OVERRIDE: ["", "1"],
  };
  const entries = Object.entries(pools).map(([name, pool]) => [
    name,
    // Namespaces come from the list alone: they are what must not be anyone's.
    name !== "CNI_NETNS" && random.once(15)
      ? random.pick(TEXTS)
      : random.pick(pool),
  ]);
  return Object.fromEntries(entries.filter(() => !random.once(40)));
}

/** A configuration that both plugins can use. */
function makeConfig(random: Random): Record<string, unknown> {
  const subnet = random.pick(["10.1.2.0/24", "2001:db8:1::/64"]);
  return {
    cniVersion: random.pick([...SPEC_VERSIONS, "1.1.0", "1.1.0", "1.1.0"]),
    name: "net1",
    type: "plugin",
    mtu: 1400,
    ipam: { type: "host-local", subnet, routes: [{ dst: "0.0.0.0/0" }] },
    dns: { nameservers: ["10.1.2.1"] },
    args: { cni: { ips: [] } },
    runtimeConfig: { ips: [], ipRanges: [] },
    prevResult: {
      interfaces: [{ name: "eth0", sandbox: "/nonexistent" }],
      ips: [{ address: "10.1.2.2/24", interface: 0, gateway: "10.1.2.1" }],
    },
    "cni.dev/valid-attachments": [{ containerID: "c", ifname: "eth0" }],
  };
}

/** Changes something somewhere in a value. */
function mutate(value: unknown, random: Random): unknown {
  if (typeof value !== "object" || value === null || random.once(8)) {
    return random.pick(VALUES);
  }
  if (Array.isArray(value)) {
    return random.once(3)
      ? [...value, random.pick(VALUES)]
      : value.map((item) => mutate(item, random));
  }
  const entries = Object.entries(value);
  const position = random.below(entries.length + 1);
  const [key, item] = entries[position] ?? [random.pick(TEXTS), undefined];
  const changed: [string, unknown][] = random.once(6)
    ? []
    : [[random.once(6) ? key.toUpperCase() : key, mutate(item, random)]];
  entries.splice(position, random.once(6) ? 0 : 1, ...changed);
  return Object.fromEntries(entries);
}

/** Damages bytes, as a disk or a pipe might. */
function damage(bytes: Uint8Array, random: Random): Uint8Array {
  const cut = random.below(bytes.length + 1);
  const [head, tail] = [[...bytes.subarray(0, cut)], [...bytes.subarray(cut)]];
  const byte = random.below(256);
  const ways = [
    head,
    tail,
    [...head, byte, ...tail],
    [...head, byte, ...tail.slice(1)],
    [...bytes, ...tail],
    [...bytes, byte],
    [0xef, 0xbb, 0xbf, ...bytes],
    [...head, ...Array(2000).fill(0x5b), ...tail],
  ];
  return Uint8Array.from(random.pick(ways));
}

function makeStdin(random: Random): Uint8Array {
  let config: unknown = makeConfig(random);
  for (let left = random.below(4); left > 0; left--) {
    config = mutate(config, random);
  }
  const bytes = new TextEncoder().encode(JSON.stringify(config));
  return random.once(5) ? damage(bytes, random) : bytes;
}

/** An invoker that never gives anybody an address. */
function createHopelessInvoker(random: Random): Invoker {
  const answers = ["", "{}", "null", "[]", "{{{", '{"ips":[{"address":"x"}]}'];
  return {
    invoke(): Promise<string> {
      if (random.once(4)) return Promise.resolve(random.pick(answers));
      const code = random.pick(KNOWN_CODES);
      const cause = new CniError(code, "hopeless", { details: "as told" });
      return Promise.reject(random.once(2) ? cause : new Error("", { cause }));
    },
  };
}

/** host-local that keeps its leases in a folder, and reads no other files. */
function hostLocalIn(folder: string): Plugin<HostLocalConfig> {
  const confine = (config: HostLocalConfig): HostLocalConfig => ({
    ...config,
    ipam: { ...config.ipam, dataDir: folder, resolvConf: undefined },
  });
  const schema = z.pipe(
    hostLocalSchema() as z.ZodMiniType<HostLocalConfig>,
    z.transform(confine),
  );
  const configSchema = (): Schema<HostLocalConfig> => schema;
  return { ...hostLocal, configSchema };
}

/** Checks what a runtime relies on, whatever the input was. */
function checkOutput(output: DispatchOutput, env: Environment): void {
  const { stdout, stderr, exitCode } = output;
  assert(stderr === "" || stderr.endsWith("\n"), "a log line without an end");
  if (exitCode === 0) {
    const command = env["CNI_COMMAND"] || "none";
    const isSilent = !["ADD", "VERSION"].includes(command);
    assertEquals(stdout === "", isSilent);
    if (!isSilent) assert(isSpecVersion(JSON.parse(stdout).cniVersion));
    return;
  }
  assertEquals(exitCode, 1);
  const { cniVersion, code, msg, details, ...others } = JSON.parse(stdout);
  assert(isSpecVersion(cniVersion));
  assert(KNOWN_CODES.includes(code), `unknown code ${code}`);
  assert(typeof msg === "string" && msg !== "");
  assert(["undefined", "string"].includes(typeof details) && details !== "");
  assertEquals(others, {});
}

/** Counts, to see that the input is not all of one kind. */
type Tally = Record<string, number>;

/** Where the plugins work: throw-away namespaces if there can be any. */
interface Place {
  readonly folder: string;
  readonly hostNetns: string;
  readonly netnsPaths: readonly string[];
}

async function fuzz(place: Place, tally: Tally): Promise<void> {
  const random = createRandom(SEED);
  const plugins = [hostLocalIn(place.folder), ptp];
  for (let index = 0; index < RUNS; index++) {
    const plugin = random.pick<Plugin>(plugins);
    const env = makeEnvironment(random, place.netnsPaths);
    const stdin = makeStdin(random);
    try {
      const output = await dispatch(plugin, {
        env,
        stdin: () => stdin,
        invoker: createHopelessInvoker(random),
        hostNetns: place.hostNetns,
      });
      checkOutput(output, env);
      const kind = `${plugin.name} ${output.exitCode}`;
      tally[kind] = (tally[kind] ?? 0) + 1;
    } catch (error) {
      const input = { plugin: plugin.name, env, stdin: showBytes(stdin) };
      throw new Error(
        `CNI_FUZZ_SEED=${SEED}, run ${index}: ${JSON.stringify(input)}`,
        { cause: error },
      );
    }
  }
}

/** Shows bytes one by one as Latin-1, which no byte is lost in. */
function showBytes(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

function makeFolder(stack: DisposableStack): string {
  const folder = Deno.makeTempDirSync({ prefix: "cni-test-" });
  stack.defer(() => Deno.removeSync(folder, { recursive: true }));
  return folder;
}

Deno.test("dispatch() answers any input by one document or nothing", async () => {
  using stack = new DisposableStack();
  const folder = makeFolder(stack);
  const hosts = canUseNetns ? stack.use(TestHosts.create()) : undefined;
  const tally: Tally = {};
  const startMs = performance.now();
  await fuzz({
    folder,
    // Without a namespace of our own, one of another kind, which leads nowhere.
    hostNetns: hosts?.host.path ?? "/proc/self/ns/mnt",
    netnsPaths: ["/nonexistent", "", "/proc/self/ns/mnt"]
      .concat(hosts ? [hosts.host.path, hosts.sandbox.path] : []),
  }, tally);
  assert(performance.now() - startMs < LIMIT_MS, "it took too long");
  for (const plugin of ["host-local", "ptp"]) {
    for (const exitCode of [0, 1]) {
      const count = tally[`${plugin} ${exitCode}`] ?? 0;
      assert(count > RUNS / 50, JSON.stringify(tally));
    }
  }
});
