/**
 * Golden files of what iproute2 and the kernel say to each other: the bytes, and how
 * our decoder reads them. `tests/golden_netlink_test.ts` compares them with our
 * requests.
 *
 * A file names the command and those that prepare its scene. For a new one, write it
 * with a single message that has nothing but the type of the request:
 * `"messages": [{"decoded": {"type": "RTM_NEWLINK"}}]`. `CNI_RECORD_NETLINK=NAME` in
 * the environment of the test then captures the file NAME, which needs root, iproute2
 * and strace; `CNI_RECORD_NETLINK=all` captures every file.
 * `CNI_RECORD_NETLINK=decoded` decodes the captured bytes again, and needs none of
 * these. Read the diff before you commit it: it shows whether the decoder is right.
 *
 * @module
 */

import type { Bytes } from "../../net/bytes.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import {
  messageHeader,
  type RawMessage,
  splitMessages,
} from "../../ffi/netlink/message.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  findMessageType,
  firstMessage,
  type Rendering,
  renderMessage,
} from "./netlink_rendering.ts";

const DIRECTORY = new URL("../golden/netlink/", import.meta.url);

/** Stands for the path of a second namespace in commands. */
const SANDBOX = "$SANDBOX";

/** The content of a golden file. */
export interface Golden {
  /** Commands that prepare the scene. */
  readonly after?: readonly string[];
  readonly command: string;
  readonly iproute2: string;
  readonly kernel: string;
  /** The request first, then the kernel's replies. */
  readonly messages: readonly GoldenMessage[];
}

/** One message of a golden file. */
export interface GoldenMessage {
  readonly direction: "sent" | "received";
  /** The whole message with its header, in hex. */
  readonly bytes: string;
  readonly decoded: Rendering;
}

/** Lists the names of all golden files. */
export function listGolden(): string[] {
  return [...Deno.readDirSync(DIRECTORY)]
    .map(({ name }) => name.replace(/\.json$/, "")).sort();
}

/** Reads a golden file. */
export function readGolden(name: string): Golden {
  return JSON.parse(Deno.readTextFileSync(new URL(`${name}.json`, DIRECTORY)));
}

/** Records what the environment asks for. */
export function recordGolden(): void {
  const wanted = Deno.env.get("CNI_RECORD_NETLINK");
  if (wanted === undefined) return;
  for (const name of listGolden()) {
    if (!["all", "decoded", name].includes(wanted)) continue;
    const golden = readGolden(name);
    const made = wanted === "decoded" ? renderAgain(golden) : capture(golden);
    const file = new URL(`${name}.json`, DIRECTORY);
    Deno.writeTextFileSync(file, `${formatJson(made)}\n`);
  }
}

/** A datagram and its socket, since iproute2 opens several. */
interface Datagram {
  readonly socket: string;
  readonly direction: GoldenMessage["direction"];
  readonly bytes: Bytes;
}

/** Line width of golden files, except for long bytes. */
const MAX_LINE = 100;

/** Makes strace dump messages without interpreting them. */
const STRACE = [
  ...["-e", "trace=sendmsg,sendto,recvmsg"],
  ...["-e", "raw=all", "-e", "read=all", "-e", "write=all"],
  ...["-e", "signal=none"],
];

function trace(netns: NetNs, command: readonly string[]): Datagram[] {
  const file = Deno.makeTempFileSync();
  try {
    const args = [...STRACE, "-o", file, ...command];
    // Fails with the command; refusals are also captured.
    inNetns(netns, () => new Deno.Command("strace", { args }).outputSync());
    return parseTrace(Deno.readTextFileSync(file));
  } finally {
    Deno.removeSync(file);
  }
}

/** Parses `sendmsg(0x3, ...` and the dump after it, such as ` | 00010  de ad  .. |`. */
function parseTrace(text: string): Datagram[] {
  return text.split(/^(?=\w+\()/m).flatMap((call) => {
    // 16 bytes per line with an extra space in the middle, then as text.
    const hex = [...call.matchAll(/^ \| [\da-f]{5} {2}([\da-f ]{48}) /gm)]
      .map(([, bytes = ""]) => bytes.replaceAll(" ", "")).join("");
    const [, name = "", socket = ""] = /^(\w+)\((\w+)/.exec(call) ?? [];
    if (hex === "") return [];
    const direction = name.startsWith("recv") ? "received" : "sent";
    return [{ socket, direction, bytes: Uint8Array.fromHex(hex) }];
  });
}

/** Keeps the first request of a type and its replies. */
function keepConversation(
  datagrams: readonly Datagram[],
  name: string,
): GoldenMessage[] {
  const at = datagrams.findIndex(({ direction, bytes }) => {
    if (direction !== "sent") return false;
    const { type, sequence } = firstMessage(bytes);
    // iproute2 probes the kernel with sequence number 0.
    return sequence !== 0 && findMessageType(type)?.name === name;
  });
  const [sent, ...later] = datagrams.slice(at);
  if (at < 0 || sent === undefined) throw new Error(`Cannot find a ${name}`);
  const request = firstMessage(sent.bytes);
  const replies = later.filter(({ direction, socket }) =>
    direction === "received" && socket === sent.socket
  ).flatMap(({ bytes }) => [...splitMessages(bytes)])
    .filter(({ sequence }) => sequence === request.sequence);
  return [request, ...replies].map((message) => {
    const direction = message === request ? "sent" : "received";
    const bytes = wholeOf(message.body).toHex();
    return { direction, bytes, decoded: renderMessage(message, request) };
  });
}

/** Returns a message with its header, which precedes the body in memory. */
function wholeOf(body: Bytes): Bytes {
  const { size } = messageHeader;
  return new Uint8Array(
    body.buffer,
    body.byteOffset - size,
    body.length + size,
  );
}

function capture({ after = [], command, messages }: Golden): Golden {
  using host = NetNs.create();
  using sandbox = NetNs.create();
  const words = (line: string): string[] =>
    line.replaceAll(SANDBOX, sandbox.path).split(" ");
  for (const line of after) {
    const [program = "", ...args] = words(line);
    runIn(host, program, ...args);
  }
  const datagrams = trace(host, words(command));
  const request = messages[0]?.decoded.type ?? "";
  return {
    ...after.length > 0 && { after },
    command,
    ...versions(host),
    messages: keepConversation(datagrams, request),
  };
}

function versions(netns: NetNs): Pick<Golden, "iproute2" | "kernel"> {
  const [iproute2 = ""] = /(?<=iproute2-)[\d.]+/
    .exec(runIn(netns, "ip", "-V")) ?? [];
  const [kernel = ""] = /^\d+\.\d+/.exec(Deno.osRelease()) ?? [];
  return { iproute2, kernel };
}

/** Formats JSON; what fits is on one line. */
function formatJson(value: unknown, indent = ""): string {
  const line = JSON.stringify(value);
  if (typeof value !== "object" || value === null) return line;
  if (indent.length + line.length <= MAX_LINE) return line;
  const inner = `${indent}  `;
  const parts = Object.entries(value).map(([key, part]) =>
    inner + (Array.isArray(value) ? "" : `${JSON.stringify(key)}: `) +
    formatJson(part, inner)
  ).join(",\n");
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${parts}\n${indent}${close}`;
}

/** Decodes the captured bytes again. */
function renderAgain({ messages, ...rest }: Golden): Golden {
  const decode = ({ bytes }: GoldenMessage): RawMessage =>
    firstMessage(Uint8Array.fromHex(bytes));
  const [request] = messages.map(decode);
  const rendered = messages.map((message) => ({
    ...message,
    decoded: renderMessage(decode(message), request),
  }));
  return { ...rest, messages: rendered };
}
