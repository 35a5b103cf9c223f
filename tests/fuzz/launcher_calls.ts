/**
 * Random calls, for which `launcher/call.c` must send what deno sends.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { buildIdentity } from "../../base/process/build_identity.ts";
import { handOver } from "../../daemon/caller/hand_over.ts";
import { SENT_VARIABLES } from "../../daemon/wire/call_format.ts";
import { isForDaemon } from "../../daemon/wire/daemon_socket.ts";
import { decodeRequest } from "../../daemon/wire/request.ts";
import { UnixStream } from "../../ffi/socket/unix_stream.ts";
import { type Bytes, concat } from "../../net/bytes.ts";
import { readLauncher } from "../../scripts/stubs/add_code.ts";
import { makeProgram, ProgramFile } from "../../scripts/launcher/testing.ts";
import type { Machine } from "../../scripts/mkdenort/elf.ts";
import { withFacts } from "../../scripts/mkdenort/object.ts";

/** A call of an executable. */
interface Call {
  readonly argv: readonly [string, ...string[]];
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
  /** Whether the stub must not leave it to deno: nothing in it is unusual. */
  readonly isPlain: boolean;
}

/** A request, and the socket that it is for. */
interface Sent {
  readonly path: string;
  readonly bytes: Bytes;
}

const WORD = 8;

/** What runs `launcher/testing/sender.c`. */
export interface Sender {
  output(
    options: { readonly stdin: Bytes },
  ): Promise<{ readonly stdout: Bytes }>;
}

/** Returns `launcher/testing/sender.c` for a processor. */
export function makeSender(machine: Machine): ProgramFile {
  const code = withFacts(readLauncher("testing/sender", machine), {
    numbers: [0],
    texts: [[buildIdentity, buildIdentity.length + 1]],
  });
  return new ProgramFile(machine, makeProgram(machine, code));
}

const utf8 = new TextEncoder();

function words(...numbers: readonly number[]): Bytes {
  return new Uint8Array(BigUint64Array.from(numbers, BigInt).buffer);
}

/**
 * Encodes a call as the program reads it: the stack of a new process, with its
 * strings. A pointer is 1 more than what it is behind the first of them.
 */
function encodeCall({ argv, env, stdin }: Call): Bytes {
  const strings: Bytes[] = [];
  let at = 0;
  const pointTo = (text: string): number => {
    const bytes: Bytes = utf8.encode(`${text}\0`);
    strings.push(bytes);
    at += bytes.length;
    return at - bytes.length + 1;
  };
  const stack = words(
    argv.length,
    ...argv.map(pointTo),
    0,
    ...Object.entries(env).map(([name, value]) => pointTo(`${name}=${value}`)),
    0,
  );
  const input: Bytes = utf8.encode(stdin);
  const lengths = words(stack.length, at, input.length);
  return concat([lengths, stack, ...strings, input]);
}

/** Returns what the stub sends for each call; undefined if it starts deno. */
async function sendByStub(
  sender: Sender,
  calls: readonly Call[],
): Promise<(Sent | undefined)[]> {
  const { stdout } = await sender.output({
    stdin: concat(calls.map(encodeCall)),
  });
  const view = new DataView(stdout.buffer, stdout.byteOffset);
  let at = 0;
  const take = (length: number): Bytes => stdout.slice(at, at += length);
  return calls.map(() => {
    const [path = 0, request = 0] = [0, WORD]
      .map((offset) => Number(view.getBigUint64(at + offset, true)));
    at += 2 * WORD;
    if (request === 0) return undefined;
    return { path: new TextDecoder().decode(take(path)), bytes: take(request) };
  });
}

/** Returns the first request that deno sends; undefined if it asks no daemon. */
async function sendByDeno(call: Call): Promise<Sent | undefined> {
  const { argv: [argv0, ...args], env, stdin } = call;
  if (args.length > 0 || !isForDaemon((name) => env[name])) return undefined;
  let sent: Sent | undefined;
  const { connect } = UnixStream;
  UnixStream.connect = (path) => {
    const send = (bytes: Bytes): boolean => {
      sent ??= { path, bytes };
      return false;
    };
    const stream = { setLimit: () => {}, send, isExpired: false };
    return Object.create(UnixStream.prototype, {
      ...Object.getOwnPropertyDescriptors(stream),
      [Symbol.dispose]: { value: () => {} },
    });
  };
  try {
    const name = argv0.slice(argv0.lastIndexOf("/") + 1);
    await handOver({ name, env, stdin: utf8.encode(stdin) });
  } finally {
    UnixStream.connect = connect;
  }
  return sent;
}

/** Keys as configurations may spell them, and others that resemble them. */
const keys = fc.constantFrom(
  ...["daemonSocket", "daemonSocket", "daemonSocketDir", "DaemonSocket"],
  ...["DAEMONSOCKETDIR", "daemonSoc\u212aet", "daemonSocket ", "daemonSocke"],
  ...["daemonSocketDi\u0000", "name", "ipam", "\u00e9\\", '"daemonSocket'],
);
const paths = fc.constantFrom("/a", "/a/b", "/run/x", "/\u00e9");
const values = fc.oneof(
  paths,
  fc.constantFrom<unknown>(
    ...["relative", "", '/with \\ and "', `/${"x".repeat(93)}`],
    ...[null, 1, true, [], {}, { daemonSocket: "/x" }, ["daemonSocket"]],
    `/${"x".repeat(94)}`,
  ),
  fc.string({ maxLength: 5 }),
);
/** JSON with keys as often as they come, white space, and escapes where none are needed. */
const unusualTexts = fc.array(
  fc.tuple(keys, values, fc.constantFrom("", " ", "\n\t"), fc.nat(20)),
  { maxLength: 4 },
).map((entries) =>
  `{${
    entries.map(([key, value, space, escape]) => {
      const name = JSON.stringify(key);
      const written = escape === 0 ? name.replace("d", "\\u0064") : name;
      return `${space}${written}${space}:${space}${JSON.stringify(value)}`;
    }).join(",")
  }}`
);
/** Configurations as people write them. */
const plainTexts = fc.tuple(
  fc.record({
    cniVersion: fc.constantFrom("1.0.0", "1.1.0"),
    daemonSocket: fc.oneof(paths, fc.constant("")),
    daemonSocketDir: paths,
    ipam: fc.record({ daemonSocket: paths }),
    text: fc.string({ unit: "grapheme", maxLength: 5 }),
  }, { requiredKeys: ["cniVersion"] }),
  fc.constantFrom(undefined, 2),
).map(([config, space]) => JSON.stringify(config, undefined, space));

/** Names of variables: those that are sent, and such that begin or end otherwise. */
const names = fc.constantFrom(
  ...SENT_VARIABLES.flatMap((name) =>
    name.endsWith("*")
      ? [name.slice(0, -1), name.replace("*", "X"), name.slice(0, -2)]
      : [name, `${name}_`, name.slice(0, -1), `X${name}`]
  ),
).filter((name) => name !== "");
const variableValues = fc.oneof(
  fc.constantFrom("", "=", "a=b", "1", "/x:/y"),
  fc.string({ unit: "grapheme", maxLength: 8 })
    .map((text) => text.replaceAll("\0", "")),
);
const needed = fc.oneof(
  { weight: 30, arbitrary: fc.constantFrom("c1", "/proc/self/ns/net") },
  { weight: 1, arbitrary: fc.constantFrom("", undefined) },
);
const environments = fc.tuple(
  fc.array(fc.tuple(names, variableValues), { maxLength: 5 }),
  fc.constantFrom(
    ...["ADD", "ADD", "CHECK", "DEL", "GC", "STATUS"],
    ...["VERSION", "AD", "ADDS", "", undefined],
  ),
  fc.tuple(needed, needed, needed, needed),
  fc.oneof(
    { weight: 10, arbitrary: fc.constant([]) },
    {
      weight: 1,
      arbitrary: fc.tuple(
        fc.constantFrom("CNI_NO_DAEMON", "CNI_TRACE"),
        fc.constantFrom("", "1"),
      ).map((one) => [one]),
    },
  ),
  fc.boolean(),
).map(([others, command, [id, netns, ifname, path], more, isFirst]) => {
  const own = Object.entries({
    CNI_COMMAND: command,
    CNI_CONTAINERID: id,
    CNI_NETNS: netns,
    CNI_IFNAME: ifname,
    CNI_PATH: path,
  }).filter((one): one is [string, string] => one[1] !== undefined);
  const rest = [...others, ...more];
  return Object.fromEntries(isFirst ? [...own, ...rest] : [...rest, ...own]);
});

const calls: fc.Arbitrary<Call> = fc.tuple(
  fc.constantFrom(
    ...["ptp", "chain", "multus", "multus-shim", "multus-shi", "", "a/"],
    ...["/opt/cni/bin/ptp", "/multus", "./x/chain"],
  ),
  fc.nat(30),
  environments,
  fc.boolean(),
  plainTexts,
  unusualTexts,
).map(([argv0, argument, env, isPlain, plain, unusual]): Call => ({
  argv: argument === 0 ? [argv0, "x"] : [argv0],
  env,
  stdin: isPlain ? plain : unusual,
  // The stub leaves an empty variable to deno, which traces nothing.
  isPlain: isPlain && env["CNI_TRACE"] !== "",
}));

/** Calls that one process of the program gets. */
const BATCH = 4000;

/**
 * Compares what the stub and deno send for random calls.
 *
 * @returns How often the stub asks a daemon
 * @throws {Error} With the call for which they differ
 */
export async function compareCalls(
  sender: Sender,
  { runs, seed }: { readonly runs: number; readonly seed: number },
): Promise<number> {
  let asked = 0;
  for (let done = 0; done < runs; done += BATCH) {
    const numRuns = Math.min(BATCH, runs - done);
    const batch = fc.sample(calls, { numRuns, seed: seed + done });
    const sent = await sendByStub(sender, batch);
    for (const [index, call] of batch.entries()) {
      const byDeno = await sendByDeno(call);
      const byStub = sent[index];
      if (byStub !== undefined) asked++;
      // What is unusual may be left to deno.
      else if (byDeno === undefined || !call.isPlain) continue;
      assertEquals(describe(byStub), describe(byDeno), JSON.stringify(call));
    }
  }
  return asked;
}

/** Describes what must be the same: the stub leaves it to the daemon to cut argv[0]. */
function describe(sent: Sent | undefined): unknown {
  return sent && { path: sent.path, ...decodeRequest(sent.bytes) };
}
