/**
 * The daemon's own protocol: one line of JSON with a whole call, and lines of
 * JSON with its outcome, over one connection. The caller keeps its side open
 * for as long as it waits.
 *
 * @module
 */

import * as z from "zod/mini";
import { describeError } from "../../cni/error.ts";

/** Version of the protocol. */
export const PROTOCOL = 1;

const requestSchema = z.object({
  v: z.literal(PROTOCOL),
  build: z.string(),
  name: z.string(),
  world: z.object({
    netns: z.nullable(z.string()),
    host: z.string(),
    mnt: z.string(),
    root: z.string(),
    cwd: z.string(),
    umask: z.number(),
  }),
  exe: z.string(),
  env: z.record(z.string(), z.string()),
  stdin: z.string(),
});

/** A call, and the world as its caller sees it. */
export interface CallRequest {
  /** Identifies the caller's code. */
  readonly build: string;
  /** The plugin's type. */
  readonly name: string;
  /** What caller and daemon must have in common. */
  readonly world: World;
  /** The caller's executable, as `findFileId` identifies it. */
  readonly exe: string;
  /** The whole environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The configuration. */
  readonly stdin: string;
}

/** What decides what paths and names mean. Files are identified by `findFileId`. */
export interface World {
  /** CNI_NETNS; null if there is no such file. */
  readonly netns: string | null;
  /** The network namespace. */
  readonly host: string;
  /** The mount namespace. */
  readonly mnt: string;
  /** The root folder. */
  readonly root: string;
  /** The working folder. */
  readonly cwd: string;
  readonly umask: number;
}

/** A line of the daemon's. All but log text ends the conversation. */
export type Message =
  | { readonly stderr: string }
  | { readonly stdout: string; readonly exitCode: number }
  | { readonly notMine: string };

/**
 * Reads a request.
 *
 * @throws {Error} If it is none of this version
 */
export function decodeRequest(line: string): CallRequest {
  try {
    return requestSchema.parse(JSON.parse(line));
  } catch (error) {
    throw new Error(`Cannot read the request: ${describeError(error)}`);
  }
}

/** Encodes a line. */
export function encodeMessage(message: Message): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${JSON.stringify(message)}\n`);
}
