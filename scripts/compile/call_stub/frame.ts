/**
 * Where the call stub keeps things.
 *
 * @module
 */

import { HEADER_BYTES, WORD_BYTES } from "../../../cni/call_format.ts";

/** Most bytes of stdin that are read: more than a plugin takes. */
export const MAX_STDIN = 16 * 1024 * 1024 + 4096;
/** Most bytes of a message of the daemon. */
export const MAX_MESSAGE = 16 * 1024 * 1024;
/** For the working folder. Source: linux/limits.h `PATH_MAX`. */
export const FOLDER_BYTES = 4096;

/** Where things are in the mapping, in bytes. */
export const Memory = {
  header: 0,
  folder: HEADER_BYTES,
  stdin: HEADER_BYTES + FOLDER_BYTES,
  message: HEADER_BYTES + FOLDER_BYTES + MAX_STDIN,
  end: HEADER_BYTES + FOLDER_BYTES + MAX_STDIN + MAX_MESSAGE,
} as const;

/** Variables that the stub looks at. */
export const VARIABLES = [
  "CNI_COMMAND",
  "CNI_CONTAINERID",
  "CNI_NETNS",
  "CNI_IFNAME",
  "CNI_PATH",
  "CNI_NO_DAEMON",
  "CNI_TRACE",
] as const;

/** Where things are on the stack, in bytes. */
export const Frame = {
  /** Kept by `enter`. */
  kept: 0,
  /** The values of {@linkcode VARIABLES}; 0 if not set. */
  variables: 8,
  environment: 64,
  environmentLength: 72,
  /** argv[0] and its length. */
  name: 80,
  nameLength: 88,
  /** argv[0] without folders. */
  baseName: 96,
  /** The mapping. */
  memory: 104,
  stdinLength: 112,
  /** Values of the keys of the configuration, and their lengths; 0 if there is none. */
  values: 120,
  valueLengths: 136,
  socket: 152,
  /** Name of the file in memory. */
  stdinName: 160,
  addressLength: 168,
  /** A message's kind and number of bytes. */
  message: 184,
  poll: 200,
  address: 208,
  /** `struct stat` has 144 bytes, or 128. */
  stat: 320,
  parts: 464,
  messageHeader: 576,
  size: 640,
} as const;

/** Returns where the value of a variable is. */
export function slotOf(name: typeof VARIABLES[number]): number {
  return Frame.variables + WORD_BYTES * VARIABLES.indexOf(name);
}
