/**
 * The protocol between the node daemon and a process whose call the daemon runs. The
 * process keeps its side of the connection open while it waits.
 *
 * Both ends run on the same machine from the same build, so numbers have the processor's
 * format: 64 bits, lowest byte first. The launcher writes requests as well
 * (`launcher/call.c`), so the format needs no escape sequences.
 *
 * A request has a header of {@linkcode HEADER_BYTES}, the parts of
 * {@linkcode REQUEST_PARTS} one after the other, and {@linkcode END}. The daemon reads
 * everything else about the caller from its process. It sends a series of
 * messages: {@linkcode MessageKind}, number of bytes, and the bytes.
 *
 * Either the daemon or the caller runs the call, but never both, even if the daemon is
 * stopped for a while. The daemon sends `taken` before it begins; it does not begin if
 * the kernel refuses the message. A caller that stops waiting first calls shutdown(2) for
 * receiving, after which the kernel refuses the message. If the message arrived before,
 * the caller can still read it, and the daemon runs the call.
 *
 * @module
 */

/** Size of a number. */
export const WORD_BYTES = 8;

/** Reads a number. */
export function readNumber(bytes: Uint8Array, at: number): number {
  const [number] = new BigUint64Array(bytes.slice(at, at + WORD_BYTES).buffer);
  return Number(number);
}

/** Writes a number, at a multiple of {@linkcode WORD_BYTES}. */
export function writeNumber(
  bytes: Uint8Array<ArrayBuffer>,
  at: number,
  number: number,
): void {
  new BigUint64Array(bytes.buffer, at, 1)[0] = BigInt(number);
}

/** The end of a request. */
export const END = "\n";

/**
 * The parts of a request, in order: the daemon's name for the part, the caller's source
 * of the value, and the type that the daemon decodes. The launcher, `hand_over.ts` and
 * the daemon use this table. A part with a new source needs code in the launcher and in
 * `hand_over.ts`.
 */
export const REQUEST_PARTS = [
  /** The identity of the caller's code. */
  { name: "build", from: "identity", as: "text" },
  /** The name under which the program was called. */
  { name: "name", from: "argv0", as: "fileName" },
  /** The variables of {@linkcode SENT_VARIABLES}. */
  { name: "env", from: "environment", as: "variables" },
  /** The configuration, byte for byte; the last part, because the launcher reads it into place. */
  { name: "stdin", from: "stdin", as: "bytes" },
] as const;

/** A part of a request. */
export type RequestPart = typeof REQUEST_PARTS[number];

/** The name of a part. */
export type PartName = RequestPart["name"];

/** The caller's sources of parts. `environment`: `NAME=value`, each followed by a NUL. */
export type PartSource = RequestPart["from"];

/**
 * The beginning of a request. The last two characters are the version of the format and
 * the number of parts: an additional part changes the format.
 */
export const MAGIC: string = `cnical4${REQUEST_PARTS.length}`;

/** Size of the header: {@linkcode MAGIC}, and the length of each part. */
export const HEADER_BYTES: number = MAGIC.length +
  WORD_BYTES * REQUEST_PARTS.length;

/** Returns the offset of a part's length in the header, in bytes. */
export function lengthAt(part: PartName): number {
  const index = REQUEST_PARTS.findIndex(({ name }) => name === part);
  return MAGIC.length + WORD_BYTES * index;
}

/** Encodes a request from the values of the sources. */
export function encodeRequest(
  sources: Readonly<Record<PartSource, Uint8Array | string>>,
): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder();
  const parts = REQUEST_PARTS.map(({ from }) => {
    const source = sources[from];
    return typeof source === "string" ? text.encode(source) : source;
  });
  const total = parts.reduce((sum, { length }) => sum + length, HEADER_BYTES);
  const request = new Uint8Array(total + END.length);
  request.set(text.encode(MAGIC));
  let at = HEADER_BYTES;
  parts.forEach((part, index) => {
    writeNumber(request, MAGIC.length + WORD_BYTES * index, part.length);
    request.set(part, at);
    at += part.length;
  });
  request.set(text.encode(END), at);
  return request;
}

/**
 * The variables that are sent with a call. A name that ends in `*` stands for all names
 * with this prefix.
 *
 * In addition to the variables of CNI: for third-party plugins, the paths of programs,
 * the cluster and proxies; language and time zone; the trace that contains the call.
 */
export const SENT_VARIABLES: readonly string[] = [
  "CNI_*",
  "PATH",
  "HOME",
  "TMPDIR",
  "XDG_RUNTIME_DIR",
  "DBUS_SYSTEM_BUS_ADDRESS",
  "XTABLES_*",
  "KUBE*",
  "NODE_NAME",
  "MULTUS_*",
  "WHEREABOUTS_*",
  "SSL_CERT_*",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "ALL_PROXY",
  "NO_PROXY",
  "http_proxy",
  "https_proxy",
  "all_proxy",
  "no_proxy",
  "LANG",
  "LANGUAGE",
  "LC_*",
  "TZ",
  "TRACEPARENT",
  "TRACESTATE",
  "BAGGAGE",
  "OTEL_*",
  "GODEBUG",
  "GOTRACEBACK",
];

/** The kinds of messages from the daemon. */
export const MessageKind = {
  /** Log text. */
  log: 1,
  /** Text to print; the call succeeded. The last message. */
  success: 2,
  /** Text to print; the call failed. The last message. */
  failure: 3,
  /** Why the daemon declines the call, which has not begun. The last message. */
  declined: 4,
  /** No bytes: the daemon has taken the call. */
  taken: 5,
  /** No bytes: the call waits or runs. Sent each second. */
  alive: 6,
} as const;

/** Offsets in a message: its kind, the number of bytes that follow, and these bytes. */
export const MessageAt = {
  kind: 0,
  length: WORD_BYTES,
  bytes: 2 * WORD_BYTES,
} as const;

/** Longest content of a message, in bytes. */
export const MAX_MESSAGE = 16 * 1024 * 1024;

/** Reads the kind of a message and the number of bytes that follow. */
export function readMessageHead(
  head: Uint8Array,
): { readonly kind: number; readonly length: number } {
  return {
    kind: readNumber(head, MessageAt.kind),
    length: readNumber(head, MessageAt.length),
  };
}

/** How long a caller waits for `taken`, in ms. */
export const TAKE_MS = 1000;

/**
 * The time limit after a recent timeout of another call
 * (`daemon/wire/daemon_timeouts.ts`).
 */
export const SHORT_TAKE_MS = 250;

/**
 * The ticks in which a caller counts its time limits, in ms. For a process that was
 * stopped, the stop counts as a single tick, so it reads the messages that have arrived
 * before it gives up.
 */
export const TICK_MS = 125;

/** How long a caller waits for a message after `taken`, in ms. */
export const SILENCE_MS = 5000;

/**
 * How many times in a row that wait begins again while the daemon itself waits in the
 * kernel, such as for a lock of the network that another program holds. The daemon then
 * cannot send messages, and a local call would wait for the same lock.
 */
export const MOST_RENEWALS = 12;

/**
 * The error of a caller whose ADD the daemon lost, before and after the socket's path.
 */
export const LOST = [
  'The node daemon at "',
  '" went away before it answered',
] as const;
/** The details of the error {@linkcode LOST}. */
export const LOST_DETAILS = "parts of the attachment may exist until DEL";
