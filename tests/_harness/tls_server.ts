/**
 * A TLS server that runs a function on each connection.
 *
 * @module
 */

import { sharedCredentials } from "./kube_api/credentials.ts";
import { type Talk, TalkServer } from "./talk_server.ts";

/** The server, on 127.0.0.1. */
export class TlsServer extends TalkServer<Deno.TlsConn> {
  /** Its URL, without a slash at the end. */
  readonly url: string;
  /** PEM of the authority that signed its certificate. */
  readonly caPem: string;

  private constructor(
    listener: Deno.TlsListener,
    caPem: string,
    talk: Talk<Deno.TlsConn>,
  ) {
    super(listener, talk);
    this.url = `https://127.0.0.1:${listener.addr.port}`;
    this.caPem = caPem;
  }

  /** Listens. */
  static async start(talk: Talk<Deno.TlsConn>): Promise<TlsServer> {
    const { authority, server } = await sharedCredentials();
    const listener = Deno.listenTls({
      hostname: "127.0.0.1",
      port: 0,
      ...server,
    });
    return new TlsServer(listener, authority.pem, talk);
  }
}
