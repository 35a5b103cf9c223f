/**
 * The caller's side of the node daemon: a process that has a whole call done by
 * the daemon, and prints what comes back. As small as VERSION: no schema, no
 * plugin.
 *
 * @module
 */

import { buildIdentity } from "../cni/build_identity.ts";
import { CniError, ErrorCode, formatFailure } from "../cni/error.ts";
import {
  HEADER_BYTES,
  HeaderField,
  MAGIC,
  MESSAGE_HEADER_BYTES,
  MessageKind,
  REFUSAL_OF_FORMAT_1,
  RequestFile,
  RequestPart,
  WORD_BYTES,
} from "../cni/call_format.ts";
import { readStdinName, StdinName } from "../cni/stdin_name.ts";
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
  readonly stdin: Uint8Array;
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
  const sockets = listSockets(call.name, config);
  const stdinName = readStdinName();
  if (stdinName === StdinName.refused) return undefined;
  if (stdinName === StdinName.lost) return onLost(call, sockets[0], config);
  for (const path of sockets) {
    // Before the connection, so that the daemon wakes up once for both.
    const request = encodeRequest(call);
    using stream = UnixStream.connect(path);
    if (stream === undefined) continue;
    if (!stream.send(request)) return undefined;
    const answer = receive(stream);
    return answer === "lost" ? onLost(call, path, config) : answer;
  }
  return await askThickDaemon(call, config);
}

/** Answers a call that the daemon has lost; what can be repeated is done here. */
function onLost(
  { env }: HandedCall,
  path: string | undefined,
  config: Config,
): Answer | undefined {
  return env["CNI_COMMAND"] === "ADD"
    ? reportLost(path ?? "", config)
    : undefined;
}

/**
 * Has the Go version's daemon run a call of multus. A DEL that it does not do is
 * done here: it works from what is on disk.
 */
async function askThickDaemon(
  { name, env, stdin }: HandedCall,
  config: Config,
): Promise<Answer | undefined> {
  const folder = config.get("daemonsocketdir");
  if (name !== "multus" || typeof folder !== "string") return undefined;
  if (!folder.startsWith("/")) return undefined;
  const { sendCall, thickSocket, toAnswer } = await import("./thick/client.ts");
  const socket = thickSocket(folder);
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
function parseConfig(stdin: Uint8Array): Config {
  try {
    const text = new TextDecoder().decode(stdin);
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

/** Describes the call, and the world as this process sees it. */
function encodeRequest(
  { name, env, stdin }: HandedCall,
): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder();
  const variables = Object.entries(env)
    .map(([name, value]) => `${name}=${value}\0`);
  const parts: Record<keyof typeof RequestPart, Uint8Array> = {
    build: text.encode(buildIdentity),
    name: text.encode(name),
    folder: text.encode(Deno.cwd()),
    environment: text.encode(variables.join("")),
    stdin,
  };
  const files: Record<keyof typeof RequestFile, string> = {
    netns: env["CNI_NETNS"] ?? "",
    host: "/proc/self/ns/net",
    mnt: "/proc/self/ns/mnt",
    root: "/",
    exe: "/proc/self/exe",
  };
  const lengths = Object.values(parts).map(({ length }) => length);
  const total = lengths.reduce((sum, length) => sum + length, HEADER_BYTES);
  const request = new Uint8Array(total + 1);
  request.set(text.encode(MAGIC));
  const words = new BigUint64Array(
    request.buffer,
    0,
    HEADER_BYTES / WORD_BYTES,
  );
  words.set(
    [...lengths, Deno.umask()].map(BigInt),
    HeaderField.lengths / WORD_BYTES,
  );
  words.set(
    Object.values(files).flatMap(readWords),
    HeaderField.files / WORD_BYTES,
  );
  let at = HEADER_BYTES;
  for (const part of Object.values(parts)) {
    request.set(part, at);
    at += part.length;
  }
  request[at] = LINE_FEED;
  return request;
}

const LINE_FEED = 0x0a;

/** Returns device and inode of a file; zeros if there is none. */
function readWords(path: string): bigint[] {
  return (readFileId(path) ?? "0:0").split(":").map(BigInt);
}

/**
 * Receives messages up to the answer.
 *
 * @returns "lost" if the connection ends without an answer; undefined if the daemon refuses the call
 */
function receive(stream: UnixStream): Answer | "lost" | undefined {
  const text = new TextDecoder("utf-8", { ignoreBOM: true });
  for (;;) {
    const header = receiveBytes(stream, MESSAGE_HEADER_BYTES);
    if (header === undefined) return "lost";
    if (text.decode(header).startsWith(REFUSAL_OF_FORMAT_1)) return undefined;
    const [kind, length] = [...new BigUint64Array(header.buffer)].map(Number);
    if (!kind || kind > MessageKind.notMine) return "lost";
    if (length === undefined || length > MAX_MESSAGE) return "lost";
    const bytes = receiveBytes(stream, length);
    if (bytes === undefined) return "lost";
    const stdout = text.decode(bytes);
    if (kind === MessageKind.notMine) return undefined;
    if (kind === MessageKind.success) return { stdout, exitCode: 0 };
    if (kind === MessageKind.failure) return { stdout, exitCode: 1 };
    writeStderr(stdout);
  }
}

/** Most bytes of a message. */
const MAX_MESSAGE = 16 * 1024 * 1024;

/** Receives so many bytes; undefined if the connection ends before. */
function receiveBytes(
  stream: UnixStream,
  length: number,
): Uint8Array<ArrayBuffer> | undefined {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length;) {
    const count = stream.receive(bytes.subarray(done));
    if (count === 0) return undefined;
    done += count;
  }
  return bytes;
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
