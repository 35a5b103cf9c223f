/**
 * Runs random calls one after the other. It is a process of its own, which
 * `tests/fuzz_test.ts` starts and watches: it says by a line what comes next,
 * and in the end what came of it all.
 *
 * `deno run -A run.ts FIRST_SEED COUNT [--namespaces]`
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import type { DispatchOutput, Invoker } from "../../cni/call/context.ts";
import { CniError, describeError } from "../../base/error.ts";
import { dispatch } from "../../cni/skel.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { createRandom, type Random } from "../_harness/repetition.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { checkOutput, KNOWN_CODES } from "./check_output.ts";
import { listHardInputs } from "./hard_inputs.ts";
import { type FuzzInput, makeInput, readBytes } from "./input.ts";

/** Where the calls take place. */
interface Place extends Disposable {
  /** What `@host`, `@sandbox` and `@path` stand for. */
  readonly paths: Readonly<Record<string, string>>;
  /** Lists the links that no call should have left. */
  remains(): string[];
}

function makeNamespaces(): Place {
  const stack = new DisposableStack();
  const hosts = stack.use(TestHosts.create());
  const ends = [hosts.host, hosts.sandbox]
    .map(({ path }) => stack.use(Rtnl.open(path)));
  return {
    paths: {
      "@host": hosts.host.path,
      "@sandbox": hosts.sandbox.path,
      "@path": hosts.path,
    },
    // A bridge stays: others may be on it.
    remains: () =>
      ends.flatMap((rtnl) => rtnl.link.list())
        .filter(({ name, kind }) => name !== "lo" && kind !== "bridge")
        .map(({ name }) => name),
    [Symbol.dispose]: () => stack.dispose(),
  };
}

/** Without a namespace of our own, one of another kind, which leads nowhere. */
function makeNowhere(): Place {
  const nowhere = "/proc/self/ns/mnt";
  return {
    paths: { "@host": nowhere, "@sandbox": nowhere, "@path": "/nonexistent" },
    remains: () => [],
    [Symbol.dispose]: () => {},
  };
}

const GOOD_ANSWER = '{"ips":[{"address":"10.1.2.20/24","gateway":"10.1.2.1"}]}';

const ANSWERS = [
  GOOD_ANSWER,
  GOOD_ANSWER,
  GOOD_ANSWER,
  GOOD_ANSWER,
  "",
  "{}",
  "null",
  "[]",
  "{{{",
  '{"ips":[{"address":"x"}]}',
  '{"cniVersion":"9.8.7"}',
  '{"cniVersion":"0.2.0","ip4":{"ip":"10.1.2.20/24"}}',
] as const;

/** An invoker that answers anything, and fails in all ways. */
function createUnreliableInvoker(random: Random): Invoker {
  return {
    invoke(): Promise<string> {
      if (random.once(2)) return Promise.resolve(random.pick(ANSWERS));
      const code = KNOWN_CODES[random.below(KNOWN_CODES.length)] ?? 0;
      const cause = new CniError(code, "unreliable", { details: "as told" });
      return Promise.reject(random.once(2) ? cause : new Error("", { cause }));
    },
  };
}

async function call(
  { plugin: type, env, stdin, delegation }: FuzzInput,
  { paths }: Place,
): Promise<DispatchOutput> {
  const plugin = await findPlugin(type);
  if (plugin === undefined) throw new Error(`no plugin is named "${type}"`);
  const locate = (text: string): string =>
    text.replace(/@(host|sandbox|path)/g, (token) => paths[token] ?? token);
  const located = Object.entries(env)
    .map(([name, value]) => [name, locate(value)]);
  return await dispatch(plugin, {
    env: Object.fromEntries(located),
    stdin: () => readBytes(locate(stdin)),
    invoker: delegation === "done"
      ? createInvoker(dispatch, findPlugin)
      : createUnreliableInvoker(createRandom(delegation)),
    hostNetns: paths["@host"] ?? "",
  });
}

/** Runs a call and checks it; after a successful ADD, DEL is also called. */
async function run(input: FuzzInput, place: Place): Promise<DispatchOutput> {
  const output = await call(input, place);
  checkOutput(output, input.env);
  if (input.env["CNI_COMMAND"] === "ADD" && output.exitCode === 0) {
    const env = { ...input.env, CNI_COMMAND: "DEL", CNI_PATH: "@path" };
    checkOutput(await call({ ...input, env, delegation: "done" }, place), env);
  }
  assertEquals(place.remains(), [], "links were left");
  return output;
}

/** How long one call may take. The parent ends a call that never returns. */
const LIMIT_MS = 5000;

/** How often a plugin ended how, as `ptp 0`. */
type Tally = Record<string, number>;

async function runNamed(
  [name, input]: [name: string, input: FuzzInput],
  place: Place,
  tally: Tally,
): Promise<void> {
  say(name);
  const startMs = performance.now();
  const output = await run(input, place);
  const elapsedMs = performance.now() - startMs;
  assertEquals(elapsedMs < LIMIT_MS, true, `it took ${elapsedMs} ms`);
  const kind = `${input.plugin} ${output.exitCode}`;
  tally[kind] = (tally[kind] ?? 0) + 1;
}

function say(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}

function* listInputs(
  firstSeed: number,
  count: number,
): Iterable<[name: string, input: FuzzInput]> {
  yield* listHardInputs();
  for (let seed = firstSeed; seed < firstSeed + count; seed++) {
    yield [`seed ${seed}`, makeInput(seed)];
  }
}

async function main(): Promise<void> {
  const [firstSeed, count] = Deno.args.map(Number);
  const withNamespaces = Deno.args.includes("--namespaces");
  using place = withNamespaces ? makeNamespaces() : makeNowhere();
  const tally: Tally = {};
  for (const [name, input] of listInputs(firstSeed ?? 1, count ?? 0)) {
    try {
      await runNamed([name, input], place, tally);
    } catch (error) {
      const shown = `${name}: ${JSON.stringify(input)}`;
      throw new Error(`${describeError(error)}\n${shown}`, { cause: error });
    }
  }
  say(JSON.stringify(tally));
}

await main();
