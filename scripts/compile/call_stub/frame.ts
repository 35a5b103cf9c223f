/**
 * Where the call stub keeps things.
 *
 * @module
 */

import {
  COMMAND,
  NEEDED_VARIABLES,
  TRACE,
} from "../../../cni/call/variables.ts";
import { NO_DAEMON } from "../../../daemon/protocol/daemon_socket.ts";
import {
  MAX_MESSAGE,
  WORD_BYTES,
} from "../../../daemon/protocol/call_format.ts";

/**
 * Most bytes of a request before stdin. Linux has a limit of 6 MiB for the
 * environment and argv[0] (fs/exec.c `bprm_stack_limits`).
 */
export const MAX_PREFIX = 8 * 1024 * 1024;
/** Most bytes of stdin that are read: more than a plugin takes. */
export const MAX_STDIN = 16 * 1024 * 1024 + 4096;
/** For the line feed at the end of a request. */
const END_BYTES = WORD_BYTES;

/** Where things are in the mapping, in bytes. */
export const Memory = {
  /** The request; stdin is read to where it belongs in it. */
  request: 0,
  message: MAX_PREFIX + MAX_STDIN + END_BYTES,
  end: MAX_PREFIX + MAX_STDIN + END_BYTES + MAX_MESSAGE,
} as const;

/** Variables that the stub looks at. */
export const VARIABLES = [
  COMMAND,
  ...NEEDED_VARIABLES.map(({ name }) => name),
  NO_DAEMON,
  TRACE,
] as const;

/** Where a socket's address has the path. Source: linux/un.h `struct sockaddr_un`. */
export const ADDRESS_PATH = 2;

/** Where things are on the stack, in bytes. */
export const Frame = {
  /** Kept by `enter`. */
  kept: 0,
  /** The values of {@linkcode VARIABLES}; 0 if not set. */
  variables: 8,
  /** argv[0]. */
  name: 64,
  /** argv[0] without directories. */
  baseName: 72,
  /** The mapping. */
  memory: 80,
  /** Where stdin is in it. */
  stdin: 88,
  stdinLength: 96,
  /** Values of the keys of the configuration, and their lengths; 0 for an absent key. */
  values: 104,
  valueLengths: 120,
  socket: 136,
  /** Name of the file in memory. */
  stdinName: 144,
  addressLength: 152,
  /** A message's kind and number of bytes. */
  message: 160,
  poll: 176,
  /** `struct timespec`: what is left of a part of a time limit. */
  timeout: 184,
  /** The number of parts that are left. */
  timeouts: 200,
  address: 208,
  /** `struct ucred`, and the size of it. */
  credentials: 328,
  credentialsLength: 344,
  /** Not 0 if a key differs in case. */
  otherSpelling: 352,
  /** Name of the file in memory if the daemon does not take the call in time. */
  lateName: 360,
  /** Where a string of the configuration begins. */
  string: 368,
  size: 384,
} as const;

/** Returns where the value of a variable is. */
export function slotOf(name: typeof VARIABLES[number]): number {
  return Frame.variables + WORD_BYTES * VARIABLES.indexOf(name);
}
