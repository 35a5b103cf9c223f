/**
 * A proxy that makes tunnels to ports of 127.0.0.1.
 *
 * @module
 */

/** A tunnel that was asked for. */
export interface Tunnel {
  readonly port: number;
  /** Name and password, joined by `:`; undefined if missing. */
  readonly credentials: string | undefined;
}

/** A proxy; its tunnels end with those who use them. */
export class TunnelProxy implements Disposable {
  /** Those that were asked for. */
  readonly tunnels: Tunnel[] = [];
  readonly #listener: Deno.TcpListener;

  /** Listens on 127.0.0.1. */
  constructor(protocol: "http" | "socks5") {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const open = protocol === "http" ? openByConnect : openBySocks;
    this.#serve(open);
  }

  /** Where it listens. */
  get port(): number {
    return this.#listener.addr.port;
  }

  async #serve(open: (conn: Deno.Conn) => Promise<Tunnel>): Promise<void> {
    for await (const conn of this.#listener) {
      open(conn).then(async (tunnel) => {
        this.tunnels.push(tunnel);
        await join(conn, tunnel.port);
      }).catch(() => closeQuietly(conn)); // The other side has gone.
    }
  }

  /** Stops listening. */
  [Symbol.dispose](): void {
    try {
      this.#listener.close();
    } catch {
      // It is closed.
    }
  }
}

function closeQuietly(conn: Deno.Conn): void {
  try {
    conn.close();
  } catch {
    // It is closed.
  }
}

async function join(near: Deno.Conn, port: number): Promise<void> {
  const far = await Deno.connect({ hostname: "127.0.0.1", port });
  await Promise.all([
    near.readable.pipeTo(far.writable),
    far.readable.pipeTo(near.writable),
  ]);
}

async function read(conn: Deno.Conn): Promise<Uint8Array> {
  const bytes = new Uint8Array(1024);
  return bytes.subarray(0, await conn.read(bytes) ?? 0);
}

/** Source: RFC 9110 section 9.3.6. A request is expected in one piece. */
async function openByConnect(conn: Deno.Conn): Promise<Tunnel> {
  const text = new TextDecoder().decode(await read(conn));
  const [, port] = /^CONNECT [^ ]+:(\d+) /.exec(text) ?? [];
  const [, basic] = /^proxy-authorization: basic (\S+)/im.exec(text) ?? [];
  await conn.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\n\r\n"));
  return {
    port: Number(port),
    credentials: basic === undefined ? undefined : atob(basic),
  };
}

const SOCKS_VERSION = 5;
const NO_AUTHENTICATION = 0;
const BY_PASSWORD = 2;

/** Source: RFC 1928, RFC 1929. Each message is expected in one piece. */
async function openBySocks(conn: Deno.Conn): Promise<Tunnel> {
  const [, , ...methods] = await read(conn);
  const method = methods.includes(BY_PASSWORD)
    ? BY_PASSWORD
    : NO_AUTHENTICATION;
  await conn.write(Uint8Array.of(SOCKS_VERSION, method));
  const credentials = method === BY_PASSWORD
    ? await readPassword(conn)
    : undefined;
  const [high = 0, low = 0] = (await read(conn)).slice(-2);
  await conn.write(Uint8Array.of(SOCKS_VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 0));
  return { port: high * 256 + low, credentials };
}

async function readPassword(conn: Deno.Conn): Promise<string> {
  const [, length = 0, ...rest] = await read(conn);
  await conn.write(Uint8Array.of(1, 0));
  const text = String.fromCharCode(...rest);
  return `${text.slice(0, length)}:${text.slice(length + 1)}`;
}
