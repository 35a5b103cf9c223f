/**
 * The caller's side of the node daemon: a process that has a whole call done by
 * the daemon, and prints what comes back. As small as VERSION: no schema, no
 * plugin.
 *
 * @module
 */

import { buildIdentity } from "../cni/build_identity.ts";
import { CniError, ErrorCode, formatFailure } from "../cni/error.ts";
import { writeStderr } from "../cni/stdio.ts";
import { CURRENT_VERSION, isSpecVersion } from "../cni/version.ts";
import { readFileId, UnixStream } from "../ffi/unix_stream.ts";

/** A call, as this process got it. */
export interface HandedCall {
  /** The plugin's type. */
  readonly name: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The configuration, byte for byte. */
  readonly stdin: string;
}

/** The outcome of a call: what to print, and the exit code. */
export interface Answer {
  /** One JSON document, or nothing. */
  readonly stdout: string;
  /** 0 for success. */
  readonly exitCode: number;
}

/**
 * Has a node daemon run a call, if the configuration names a daemon. Log text is
 * written to stderr as it comes.
 *
 * @returns Undefined if this process must run the call itself
 */
export async function handOver(call: HandedCall): Promise<Answer | undefined> {
  const config = parseConfig(call.stdin);
  for (const path of listSockets(call.name, config)) {
    // Before the connection, so that the daemon wakes up once for both.
    const request = encodeRequest(call);
    using stream = UnixStream.connect(path);
    if (stream === undefined) continue;
    if (!stream.send(request)) return undefined;
    const answer = receive(stream);
    if (answer !== "lost") return answer;
    return call.env["CNI_COMMAND"] === "ADD"
      ? reportLost(path, config)
      : undefined;
  }
  return await askThickDaemon(call, config);
}

/**
 * Has the Go version's daemon run a call of multus. A DEL that it does not do is
 * done here: it works from what is on disk.
 */
async function askThickDaemon(
  { name, env, stdin: text }: HandedCall,
  config: Config,
): Promise<Answer | undefined> {
  const folder = config.get("daemonsocketdir");
  if (name !== "multus" || typeof folder !== "string") return undefined;
  if (!folder.startsWith("/")) return undefined;
  const { sendCall, thickSocket, toAnswer } = await import("./thick/client.ts");
  const socket = thickSocket(folder);
  const stdin = new TextEncoder().encode(text);
  const response = sendCall(socket, { env, stdin });
  const command = env["CNI_COMMAND"];
  if (response === "unreachable") return undefined;
  if (response === "lost") {
    return command === "ADD" ? reportLost(socket, config) : undefined;
  }
  if (command === "DEL" && response.status !== 200) return undefined;
  const cniVersion = String(config.get("cniversion") ?? "");
  return await toAnswer({ env, cniVersion }, response);
}

/** Every key in lower case; the last of several wins, and null is absent. */
type Config = ReadonlyMap<string, unknown>;

/** Reads the top level. The call itself reports what is wrong with the configuration. */
function parseConfig(text: string): Config {
  try {
    const entries = Object.entries(JSON.parse(text) ?? {})
      .filter(([, value]) => value !== null)
      .map(([key, value]): [string, unknown] => [key.toLowerCase(), value]);
    return new Map(entries);
  } catch {
    return new Map();
  }
}

/**
 * Programs that also look for a daemon by its folder, and the folder if the
 * configuration names none.
 */
const FOLDERS: Readonly<Record<string, string | undefined>> = {
  "multus": undefined,
  "chain": undefined,
  "multus-shim": "/run/multus",
};

/** Lists the sockets at which a daemon may listen, in the order to try them. */
function listSockets(name: string, config: Config): string[] {
  const paths = [config.get("daemonsocket")];
  if (Object.hasOwn(FOLDERS, name)) {
    const folder = config.get("daemonsocketdir");
    const found = typeof folder === "string" && folder !== ""
      ? folder
      : FOLDERS[name];
    if (found !== undefined) paths.push(`${found}/daemon.sock`);
  }
  return paths.filter((path): path is string =>
    typeof path === "string" && path.startsWith("/")
  );
}

/** Version of the protocol. */
const PROTOCOL = 1;

/** Describes the call, and the world as this process sees it. */
function encodeRequest(
  { name, env, stdin }: HandedCall,
): Uint8Array<ArrayBuffer> {
  const request = {
    v: PROTOCOL,
    build: buildIdentity,
    name,
    world: {
      netns: readFileId(env["CNI_NETNS"] ?? "") ?? null,
      host: readFileId("/proc/self/ns/net"),
      mnt: readFileId("/proc/self/ns/mnt"),
      root: readFileId("/"),
      cwd: Deno.cwd(),
      umask: Deno.umask(),
    },
    exe: readFileId("/proc/self/exe"),
    env,
    stdin,
  };
  return new TextEncoder().encode(`${JSON.stringify(request)}\n`);
}

/** Bytes to receive at once. */
const BUFFER_BYTES = 16 * 1024;

/**
 * Receives lines up to the answer.
 *
 * @returns "lost" if the connection ends without an answer; undefined if the daemon refuses the call
 */
function receive(stream: UnixStream): Answer | "lost" | undefined {
  const buffer = new Uint8Array(BUFFER_BYTES);
  const decoder = new TextDecoder();
  let line = "";
  for (let length; (length = stream.receive(buffer)) > 0;) {
    const text = decoder.decode(buffer.subarray(0, length), { stream: true });
    const [first = "", ...others] = text.split("\n");
    line += first;
    for (const next of others) {
      const message = parseMessage(line);
      if (message?.stderr !== undefined) writeStderr(message.stderr);
      else {return message?.notMine === undefined
          ? toAnswer(message)
          : undefined;}
      line = next;
    }
  }
  return "lost";
}

/** A line of the daemon's. */
interface Message extends Partial<Answer> {
  readonly stderr?: string;
  /** Why the daemon did not run the call. */
  readonly notMine?: string;
}

function parseMessage(line: string): Message | undefined {
  try {
    return JSON.parse(line) ?? undefined;
  } catch {
    return undefined;
  }
}

function toAnswer({ stdout, exitCode }: Message = {}): Answer | "lost" {
  return typeof stdout === "string" && typeof exitCode === "number"
    ? { stdout, exitCode }
    : "lost";
}

/** Formats the failure of an ADD that nobody knows the end of; the runtime cleans up with DEL. */
function reportLost(path: string, config: Config): Answer {
  const version = config.get("cniversion");
  const isKnown = typeof version === "string" && isSpecVersion(version);
  return formatFailure(
    new CniError(
      ErrorCode.TryAgainLater,
      `The node daemon at "${path}" went away before it answered`,
      { details: "parts of the attachment may exist until DEL" },
    ),
    isKnown ? version : CURRENT_VERSION,
  );
}
