/**
 * The call stub: code that runs before deno starts, and has a node daemon run the
 * call. deno takes some 15 ms to start; a call that the daemon runs does not need it.
 *
 * It does what `daemon/client/hand_over.ts` does, for the usual case:
 *
 * 1. There are no arguments, the variables of the command are set, and neither
 *    CNI_NO_DAEMON nor CNI_TRACE is there.
 * 2. stdin is read. `daemon/protocol/daemon_socket.ts` says which socket it leads to.
 * 3. The daemon is there, is root's or this user's, and takes the call.
 *
 * In any other case deno starts as if nothing had been. What was read from stdin is
 * then put back, as a file in memory, whose name says how far the stub came
 * (`daemon/protocol/stdin_name.ts`).
 *
 * It calls the kernel and nothing else, and allocates nothing but one mapping. Each
 * step is a function that writes machine code.
 *
 * @module
 */

import type { Assembler } from "../../mkdenort/assembler.ts";
import { findKeys, findSocket, mapMemory, readStdin } from "./configuration.ts";
import { connect, lost, receive, send } from "./conversation.ts";
import { checkEnvironment, readEnvironment, readName } from "./environment.ts";
import { Frame } from "./frame.ts";
import { putBack, startDeno } from "./give_back.ts";
import { beginRequest } from "./request.ts";
import type { Writer } from "./writer.ts";

/** Facts about the stub's executable. */
export interface StubFacts {
  /** Identifies the code, as `buildIdentity` does. */
  readonly build: string;
}

/**
 * Writes the stub: its code, and its texts behind it. The label
 * `DENO_ENTRY` has to be defined.
 */
export function writeStub(
  w: Writer,
  texts: Pick<Assembler, "text">,
  { build }: StubFacts,
): void {
  w.p.enter(Frame.size, Frame.kept);
  readName(w);
  readEnvironment(w);
  checkEnvironment(w);
  mapMemory(w);
  beginRequest(w, build);
  readStdin(w);
  findKeys(w);
  findSocket(w);
  connect(w);
  send(w);
  receive(w);
  lost(w);
  putBack(w);
  startDeno(w);
  for (const [value, label] of w.texts) texts.text(label, value);
}
