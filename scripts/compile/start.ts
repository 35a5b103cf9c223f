/**
 * Starts an executable that was built, before it is called done.
 *
 * @module
 */

import { encodeMessage, sizeOfRequest } from "../../daemon/wire/request.ts";
import { concat } from "../../net/bytes.ts";

/** An executable's tasks, by call. */
export type Behaviour = Readonly<Record<string, string>>;

/** A call of a plugin. */
interface Call {
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** Calls that change nothing on the machine. */
const CALLS: Readonly<Record<string, Call>> = {
  "VERSION": {
    env: { CNI_COMMAND: "VERSION" },
    stdin: '{"cniVersion":"1.1.0"}',
  },
  "an ADD without CNI_CONTAINERID": {
    env: { CNI_COMMAND: "ADD" },
    stdin: '{"cniVersion":"1.1.0","name":"start","type":"start"}',
  },
};

/** The call that a daemon runs, and what it has the caller print. */
const BY_DAEMON = "a call by a daemon", ANSWER = '{"by":"daemon"}';

/** The tasks of all plugins. */
const EXPECTED: Readonly<Record<string, RegExp>> = {
  "VERSION": /^exit status 0: .*"supportedVersions"/s,
  "an ADD without CNI_CONTAINERID": /^exit status 1: .*"code": 4/s,
  [BY_DAEMON]: /^exit status 0: {"by":"daemon"}$/,
};

/** No program takes as long as this. */
const LIMIT_MS = 120_000;

/**
 * Calls an executable.
 *
 * @param path It has the name of a plugin, if it has several
 * @param asksDaemon Whether it hands calls to a node daemon
 */
export async function observe(
  path: string,
  asksDaemon: boolean,
): Promise<Behaviour> {
  const behaviour: Record<string, string> = {};
  for (const [name, call] of Object.entries(CALLS)) {
    behaviour[name] = await run(path, call);
  }
  if (asksDaemon) behaviour[BY_DAEMON] = await runByDaemon(path);
  return behaviour;
}

/** Returns what is wrong with a plugin of the project; undefined if nothing is. */
export function findFault(behaviour: Behaviour): string | undefined {
  const fault = Object.entries(behaviour)
    .find(([name, found]) => EXPECTED[name]?.test(found) === false);
  return fault && `${fault[0]} ends with ${shorten(fault[1])}`;
}

/** Returns what an executable does otherwise than it should; undefined if nothing. */
export function findDifference(
  expected: Behaviour,
  found: Behaviour,
): string | undefined {
  const name = Object.keys(expected)
    .find((name) => found[name] !== expected[name]);
  if (name === undefined) return undefined;
  const [is, was] = [found, expected].map((one) => shorten(one[name] ?? ""));
  return `${name} ends with ${is}, not with ${was}`;
}

function shorten(text: string): string {
  const line = text.replaceAll(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}

/** Returns how a call ends, and what it prints. */
async function run(path: string, { env, stdin }: Call): Promise<string> {
  const child = new Deno.Command(path, {
    clearEnv: true,
    env,
    cwd: "/",
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
    signal: AbortSignal.timeout(LIMIT_MS),
  }).spawn();
  const [{ code, signal, stdout }] = await Promise.all([
    child.output(),
    // A program need not read it.
    new Response(stdin).body?.pipeTo(child.stdin).catch(() => {}),
  ]);
  const how = signal ?? `exit status ${code}`;
  return `${how}: ${new TextDecoder().decode(stdout)}`;
}

/** Makes a call that a daemon runs. */
async function runByDaemon(path: string): Promise<string> {
  const directory = await Deno.makeTempDir();
  try {
    const daemonSocket = `${directory}/daemon.sock`;
    const listener = Deno.listen({ transport: "unix", path: daemonSocket });
    const answering = answerCalls(listener);
    try {
      return await run(path, {
        env: { CNI_COMMAND: "STATUS", CNI_PATH: "/nonexistent" },
        stdin: JSON.stringify({
          cniVersion: "1.1.0",
          ...{ name: "start", type: "start", daemonSocket },
        }),
      });
    } finally {
      listener.close();
      await answering;
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** Answers each call until the listener is closed. */
async function answerCalls(listener: Deno.UnixListener): Promise<void> {
  for await (const connection of listener) {
    using caller = connection;
    let request = new Uint8Array();
    do {
      const chunk = new Uint8Array(64 * 1024);
      const length = await caller.read(chunk);
      if (length === null) break;
      request = concat([request, chunk.subarray(0, length)]);
    } while (request.length !== sizeOfRequest(request));
    const answer = encodeMessage({ stdout: ANSWER, exitCode: 0 });
    // Short enough for one write(2).
    await caller.write(concat([encodeMessage("taken"), answer]));
  }
}
