/**
 * The bytes between a process that has the node daemon run its call, and the
 * daemon. The process keeps its side of the connection open for as long as it
 * waits.
 *
 * Both ends are on one machine and of one build, so numbers are as the processor
 * has them: 64 bits, lowest byte first. Machine code writes requests, too
 * (`scripts/compile/call_stub/`), so there is nothing in them to escape.
 *
 * A request has a header of {@linkcode HEADER_BYTES}, the parts of
 * {@linkcode REQUEST_PARTS} one after the other, and a line feed. The daemon reads
 * everything else about the caller from its process. It sends a series of
 * messages: {@linkcode MessageKind}, number of bytes, and the bytes.
 *
 * The call is begun after {@linkcode GO}, which the caller sends when it has
 * received `ready`. A caller that stops waiting before that closes the
 * connection, and runs the call itself: the daemon has not begun it, and never
 * will.
 *
 * @module
 */

/** Size of a number. */
export const WORD_BYTES = 8;

/** How a request begins. The last character is the version of the format. */
export const MAGIC = "cnicall3";

/**
 * The parts of a request, in order: what identifies the caller's code; how the
 * program was called (`argv[0]`); the variables of {@linkcode SENT_VARIABLES} as
 * `NAME=value`, each with a NUL at its end; the configuration. Whoever writes or
 * reads them is made from this list.
 */
export const REQUEST_PARTS = ["build", "name", "env", "stdin"] as const;

/** A part of a request. */
export type RequestPart = typeof REQUEST_PARTS[number];

/** Size of the header: {@linkcode MAGIC}, and the length of each part. */
export const HEADER_BYTES: number = MAGIC.length +
  WORD_BYTES * REQUEST_PARTS.length;

/** Returns where the header has the length of a part, in bytes. */
export function lengthAt(part: RequestPart): number {
  return MAGIC.length + WORD_BYTES * REQUEST_PARTS.indexOf(part);
}

/**
 * Variables that a call may need; no others are sent. A name that ends in `*`
 * stands for all that begin so.
 *
 * Besides those of CNI: for plugins of other programs, how to find programs, the
 * cluster and proxies; language and time zone; the trace that a call is part of.
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

/** What a message of the daemon is. */
export const MessageKind = {
  /** Log text. */
  stderr: 1,
  /** What to print; the call succeeded. The last message. */
  success: 2,
  /** What to print; the call failed. The last message. */
  failure: 3,
  /** Why the caller must run the call itself: nothing was begun. The last message. */
  notMine: 4,
  /** No bytes: the daemon knows the caller, and takes the call. */
  ready: 5,
  /** No bytes: the call waits or runs. Sent after {@linkcode GO}, and then each second. */
  alive: 6,
} as const;

/** Size of what is in front of a message's bytes: its kind and their number. */
export const MESSAGE_HEADER_BYTES = 16;

/** What the caller sends after `ready`, as the daemon may begin. */
export const GO = "g";

/** How long a caller waits for `ready`, in ms. */
export const READY_MS = 1000;

/** The same while a loss of another call is recorded (`daemon/protocol/daemon_losses.ts`). */
export const HURRIED_READY_MS = 250;

/** How long a caller waits for a message after {@linkcode GO}, in ms. */
export const SILENCE_MS = 5000;
