// deno-lint-ignore-file no-console -- its output is what it is for
/**
 * A program that sends over TCP as fast as possible, or measures the rate at which
 * data arrives: `flood.ts listen|connect send|receive WARM_MS WINDOW_MS PEER...`.
 *
 * It listens on port 5001 and accepts as many connections as there are peers, or it
 * connects to each peer. A receiving program prints a line for each connection, `PEER
 * BITS_PER_SECOND`: the rate in the window that begins some time after the first
 * byte.
 *
 * It imports nothing, so that it starts fast.
 *
 * @module
 */

const PORT = 5001;
const DEADLINE_MS = 10_000;

async function connect(hostname: string): Promise<Deno.TcpConn> {
  const end = performance.now() + DEADLINE_MS;
  for (;;) {
    try {
      return await Deno.connect({ hostname, port: PORT });
    } catch (error) {
      // The server is not listening yet.
      if (performance.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function send(connection: Deno.TcpConn): Promise<void> {
  const chunk = new Uint8Array(64 * 1024);
  try {
    for (;;) await connection.write(chunk);
  } catch {
    connection.close(); // The other end has seen enough.
  }
}

/** The bytes so far, and the time of the measurement. */
interface Mark {
  readonly bytes: number;
  readonly atMs: number;
}

/**
 * Measures from the first read after the warm-up until the first read after the
 * window.
 */
async function receive(
  connection: Deno.TcpConn,
  warmMs: number,
  windowMs: number,
): Promise<number> {
  const buffer = new Uint8Array(256 * 1024);
  let bytes = 0, first: number | undefined, start: Mark | undefined;
  for (;;) {
    const length = await connection.read(buffer);
    if (length === null) throw new Error("The connection has ended");
    const now = performance.now();
    first ??= now;
    bytes += length;
    if (now < first + warmMs) continue;
    start ??= { bytes, atMs: now };
    if (now < start.atMs + windowMs) continue;
    connection.close();
    return (bytes - start.bytes) * 8000 / (now - start.atMs);
  }
}

/** Opens a connection for each peer, one at a time. */
async function* open(
  how: string | undefined,
  peers: readonly string[],
): AsyncGenerator<Deno.TcpConn> {
  if (how === "connect") {
    for (const peer of peers) yield await connect(peer);
    return;
  }
  using listener = Deno.listen({ port: PORT });
  for (const _ of peers) yield await listener.accept();
}

if (import.meta.main) {
  const [how, what, warmMs, windowMs, ...peers] = Deno.args;
  for await (const connection of open(how, peers)) {
    if (what === "send") void send(connection);
    else {
      const { hostname } = connection.remoteAddr as Deno.NetAddr;
      receive(connection, Number(warmMs), Number(windowMs))
        .then((rate) => console.log(hostname, Math.round(rate)));
    }
  }
}
