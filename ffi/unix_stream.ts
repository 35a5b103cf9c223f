/**
 * A blocking connection to a unix socket.
 *
 * Of its own, apart from `libc.ts`: a process that hands its call to the node
 * daemon needs these functions only, and each further one takes 0.05 ms. Deno's
 * own connections are asynchronous and take 0.4 ms longer.
 *
 * @module
 */

/** As in `libc.ts`. */
const UNCOMPILED = { struct: ["i32"] } as const;
const PADDING = new Uint8Array(4);

const SYMBOLS = {
  socket: { parameters: ["i32", "i32", "i32", UNCOMPILED], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32", UNCOMPILED], result: "i32" },
  send: {
    parameters: ["i32", "buffer", "usize", "i32", UNCOMPILED],
    result: "isize",
  },
  recv: {
    parameters: ["i32", "buffer", "usize", "i32", UNCOMPILED],
    result: "isize",
  },
  close: { parameters: ["i32", UNCOMPILED], result: "i32" },
} as const;

/** Source: Linux socket.h, net.h; the same on x86-64 and arm64. */
const AF_UNIX = 1, SOCK_STREAM = 1, SOCK_CLOEXEC = 0x80000;
const MSG_NOSIGNAL = 0x4000;

/** Size of `sun_path`, its final NUL included. Source: linux/un.h `UNIX_PATH_MAX`. */
const PATH_BYTES = 108;

/** A connected socket. Its calls block; a signal that ends the process ends them. */
export class UnixStream implements Disposable {
  readonly #symbols;
  readonly #fd;

  private constructor(
    symbols: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"],
    fd: number,
  ) {
    this.#symbols = symbols;
    this.#fd = fd;
  }

  /**
   * Connects to the socket at a path.
   *
   * @returns Undefined if there is no socket, nothing listens on it, or this process may not use it
   */
  static connect(path: string): UnixStream | undefined {
    const name = new TextEncoder().encode(path);
    if (name.length >= PATH_BYTES) return undefined;
    const address = new Uint8Array(2 + name.length + 1);
    new Uint16Array(address.buffer, 0, 1)[0] = AF_UNIX;
    address.set(name, 2);
    const { symbols } = Deno.dlopen("libc.so.6", SYMBOLS);
    const fd = symbols.socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, PADDING);
    if (fd < 0) return undefined;
    const stream = new UnixStream(symbols, fd);
    if (symbols.connect(fd, address, address.length, PADDING) === 0) {
      return stream;
    }
    stream[Symbol.dispose]();
    return undefined;
  }

  /** Sends all bytes. Returns whether the peer's socket took them. */
  send(bytes: Uint8Array<ArrayBuffer>): boolean {
    for (let rest = bytes; rest.length > 0;) {
      const length = BigInt(rest.length);
      const sent = Number(
        this.#symbols.send(this.#fd, rest, length, MSG_NOSIGNAL, PADDING),
      );
      if (sent < 0) return false;
      rest = rest.subarray(sent);
    }
    return true;
  }

  /** Waits for bytes. Returns how many there are in the buffer, 0 if no more will come. */
  receive(buffer: Uint8Array<ArrayBuffer>): number {
    const length = BigInt(buffer.length);
    const received = this.#symbols.recv(this.#fd, buffer, length, 0, PADDING);
    return Math.max(0, Number(received));
  }

  /** Closes the connection. */
  [Symbol.dispose](): void {
    this.#symbols.close(this.#fd, PADDING);
  }
}
