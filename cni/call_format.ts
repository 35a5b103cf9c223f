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
 * {@linkcode RequestPart} one after the other, and a line feed. The answer is a
 * series of messages: {@linkcode MessageKind}, number of bytes, and the bytes.
 *
 * @module
 */

/** Size of a number. */
export const WORD_BYTES = 8;

/** How a request begins. The last character is the version of the format. */
export const MAGIC = "cnicall2";

/** The parts of a request, in order; the header has their lengths. */
export const RequestPart = {
  /** Identifies the caller's code. */
  build: 0,
  /** How the program was called: its `argv[0]`. */
  name: 1,
  /** The working folder. */
  folder: 2,
  /** The environment: `NAME=value`, each with a NUL at its end. */
  environment: 3,
  /** The configuration. */
  stdin: 4,
} as const;

/** The files of a request, in order; the header has device and inode of each, and zeros for none. */
export const RequestFile = {
  /** CNI_NETNS. */
  netns: 0,
  /** The network namespace. */
  host: 1,
  /** The mount namespace. */
  mnt: 2,
  /** The root folder. */
  root: 3,
  /** The executable. */
  exe: 4,
} as const;

/** Where the fields of the header begin, in bytes. */
export const HeaderField = {
  magic: 0,
  lengths: 8,
  umask: 48,
  files: 56,
} as const;

/** Size of the header. */
export const HEADER_BYTES = 136;

/** What a message of the daemon is. All but log text ends the conversation. */
export const MessageKind = {
  /** Log text. */
  stderr: 1,
  /** What to print; the call succeeded. */
  success: 2,
  /** What to print; the call failed. */
  failure: 3,
  /** Why the caller must run the call itself. */
  notMine: 4,
} as const;

/** Size of what is in front of a message's bytes: its kind and their number. */
export const MESSAGE_HEADER_BYTES = 16;

/** The first {@linkcode WORD_BYTES} with which a daemon of format 1, which is JSON, refuses any request. */
export const REFUSAL_OF_FORMAT_1 = '{"notMin';
