/**
 * A client of HTTP/2 that sees all of an answer: its trailers, and how it ends.
 *
 * @module
 */

import type { Bytes } from "../../../ffi/libc.ts";
import { Http2Connection } from "./connection.ts";
import type { HeaderRecord, Http2Stream } from "./stream.ts";

/** A client on a connection of its own. */
export class Http2Client implements AsyncDisposable {
  readonly #connection: Http2Connection;
  readonly #listening: Promise<void>;

  private constructor(connection: Http2Connection) {
    this.#connection = connection;
    connection.greet();
    this.#listening = connection.listen();
  }

  /** Connects to a unix socket. */
  static async connect(path: string): Promise<Http2Client> {
    const conn = await Deno.connect({ transport: "unix", path });
    return new Http2Client(new Http2Connection(conn));
  }

  /** Sends the headers of a request. */
  begin(headers: HeaderRecord): Http2Stream {
    return this.#connection.request(headers);
  }

  /** Sends a whole request. */
  async request(headers: HeaderRecord, body: Bytes): Promise<Http2Stream> {
    const stream = this.begin(headers);
    await stream.sendData(body);
    await stream.sendEnd();
    return stream;
  }

  /** Closes the connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#connection.cut();
    await this.#listening;
  }
}
