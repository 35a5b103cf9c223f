/**
 * Sends entries to systemd's journal.
 *
 * @module
 */

import { concat } from "../../net/bytes.ts";
import { sendDatagram } from "./unix_socket.ts";

/** The journal's socket. */
const SOCKET = "/run/systemd/journal/socket";

/**
 * Sends entries to the journal, without waiting.
 *
 * @param entries Names in capitals and values, which can contain line breaks
 * @param socket The path of the journal's socket
 * @throws {SyscallError} ENOENT and ECONNREFUSED if no journal runs, EAGAIN if
 *   it is busy
 */
export function sendToJournal(
  entries: readonly Readonly<Record<string, string>>[],
  socket: string = SOCKET,
): void {
  for (const entry of entries) sendDatagram(socket, encodeEntry(entry));
}

/** Source: systemd `docs/JOURNAL_NATIVE_PROTOCOL.md`, the binary-safe form. */
function encodeEntry(
  entry: Readonly<Record<string, string>>,
): Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const lineEnd = encoder.encode("\n");
  const fields = Object.entries(entry).flatMap(([name, value]) => {
    const bytes = encoder.encode(value);
    const length = new BigUint64Array([BigInt(bytes.length)]);
    return [
      encoder.encode(`${name}\n`),
      new Uint8Array(length.buffer),
      bytes,
      lineEnd,
    ];
  });
  return concat(fields);
}
