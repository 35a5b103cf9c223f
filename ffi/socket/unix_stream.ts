/**
 * The few system calls that a process needs to call the daemon: a blocking connection
 * to a unix socket.
 *
 * Separate from `libc.ts`, because a process that hands its call to the node daemon
 * needs only these functions, and each additional function takes 0.05 ms. Deno's own
 * connections are asynchronous and take 0.4 ms longer.
 *
 * @module
 */

/** As in `libc/call.ts`. */
const UNCOMPILED = { struct: ["i32"] } as const;
const PADDING = new Uint8Array(4);

const SYMBOLS = {
  socket: { parameters: ["i32", "i32", "i32", UNCOMPILED], result: "i32" },
  connect: { parameters: ["i32", "buffer", "u32", UNCOMPILED], result: "i32" },
  send: {
    parameters: ["i32", "buffer", "i32", "i32", UNCOMPILED],
    result: "i32",
  },
  recv: {
    parameters: ["i32", "buffer", "i32", "i32", UNCOMPILED],
    result: "i32",
  },
  getsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "buffer", UNCOMPILED],
    result: "i32",
  },
  poll: { parameters: ["buffer", "u64", "i32", UNCOMPILED], result: "i32" },
  access: { parameters: ["buffer", "i32", UNCOMPILED], result: "i32" },
  close: { parameters: ["i32", UNCOMPILED], result: "i32" },
} as const;

/** Symbols that a process seldom needs. */
const RARE_SYMBOLS = {
  shutdown: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
} as const;

let opened: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;

function libc(): NonNullable<typeof opened> {
  return opened ??= Deno.dlopen("libc.so.6", SYMBOLS).symbols;
}

function cString(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

/** Source: Linux socket.h, net.h; the same on x86-64 and arm64. */
const AF_UNIX = 1, SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0x80000, SOCK_NONBLOCK = 0x800;
const MSG_NOSIGNAL = 0x4000, SHUT_RD = 0;
const SOL_SOCKET = 1, SO_PEERCRED = 17;
/** Source: linux/poll.h, socket.h `struct ucred`. */
const POLLIN = 1, POLLOUT = 4, POLLFD_BYTES = 8, UCRED_WORDS = 3;

/** Size of `sun_path`, including its final NUL. Source: linux/un.h `UNIX_PATH_MAX`. */
const PATH_BYTES = 108;

/**
 * Longest single wait, in ms. A process that was stopped in between counts no more
 * than this as waiting time, and reads the bytes that have arrived before it gives
 * up.
 */
const WAIT_MS = 125;

/** Reports whether a file exists. The first `Deno.stat` of a process takes 0.25 ms. */
export function fileExists(path: string): boolean {
  return libc().access(cString(path), 0, PADDING) === 0;
}

/** A connected socket, with a limit for all waits together. */
export class UnixStream implements Disposable {
  readonly #fd: number;
  /** The ID of the listening process; 0 if it is in a different PID namespace. */
  peerPid = 0;
  #leftMs = 0;
  #renew = (): number => 0;

  private constructor(fd: number) {
    this.#fd = fd;
  }

  /**
   * Connects to the socket at a path, if root or this process's user listens.
   * Does not wait.
   *
   * @returns Undefined if the socket does not exist, no process listens on it, too
   * many connections wait for it, this process is not permitted to use it, or a
   * different user listens
   */
  static connect(path: string): UnixStream | undefined {
    const name = cString(path);
    if (name.length > PATH_BYTES) return undefined;
    const address = new Uint8Array(2 + name.length);
    new Uint16Array(address.buffer, 0, 1)[0] = AF_UNIX;
    address.set(name, 2);
    const { socket, connect } = libc();
    const type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    const fd = socket(AF_UNIX, type, 0, PADDING);
    if (fd < 0) return undefined;
    const stream = new UnixStream(fd);
    if (
      connect(fd, address, address.length, PADDING) === 0 && stream.#isTrusted()
    ) return stream;
    stream[Symbol.dispose]();
    return undefined;
  }

  #isTrusted(): boolean {
    const ucred = new Uint32Array(UCRED_WORDS);
    const length = Uint32Array.of(ucred.byteLength);
    const { getsockopt } = libc();
    const level = SOL_SOCKET;
    if (
      getsockopt(this.#fd, level, SO_PEERCRED, ucred, length, PADDING) < 0
    ) return false;
    const [pid = 0, uid] = ucred;
    this.peerPid = pid;
    return uid === 0 || uid === Deno.uid();
  }

  /**
   * Starts a limit: for how long this stream waits from now on, in ms.
   *
   * @param renew Returns for how long to wait again when the limit expires; 0 to stop
   */
  setLimit(ms: number, renew = (): number => 0): void {
    this.#leftMs = ms;
    this.#renew = renew;
  }

  /** Whether the limit has expired. */
  get isExpired(): boolean {
    return this.#leftMs <= 0;
  }

  /** Waits for an event; returns whether it occurred within the limit. */
  #wait(events: number): boolean {
    const pollfd = new Uint8Array(POLLFD_BYTES);
    new Int32Array(pollfd.buffer, 0, 1)[0] = this.#fd;
    new Int16Array(pollfd.buffer, 4, 1)[0] = events;
    const { poll } = libc();
    while (this.#leftMs > 0 || (this.#leftMs = this.#renew()) > 0) {
      const ms = Math.min(WAIT_MS, Math.ceil(this.#leftMs));
      const begin = performance.now();
      const count = poll(pollfd, 1n, ms, PADDING);
      this.#leftMs -= Math.min(performance.now() - begin, ms);
      if (count > 0) return true; // and not after a signal
    }
    return false;
  }

  /** Sends all bytes. Returns whether the peer's socket took them in time. */
  send(bytes: Uint8Array<ArrayBuffer>): boolean {
    const { send } = libc();
    for (let rest = bytes; rest.length > 0;) {
      if (!this.#wait(POLLOUT)) return false;
      const sent = send(this.#fd, rest, rest.length, MSG_NOSIGNAL, PADDING);
      if (sent < 0) return false;
      rest = rest.subarray(sent);
    }
    return true;
  }

  /**
   * Waits for bytes. Returns how many are in the buffer; 0 at the end of the stream
   * or if the limit has expired.
   */
  receive(buffer: Uint8Array<ArrayBuffer>): number {
    const { recv } = libc();
    if (!this.#wait(POLLIN)) return 0;
    return Math.max(0, recv(this.#fd, buffer, buffer.length, 0, PADDING));
  }

  /**
   * Stops receiving: the kernel then refuses what the peer sends. Returns how many
   * bytes had arrived, up to the buffer's length.
   */
  stopReceiving(buffer: Uint8Array<ArrayBuffer>): number {
    const rare = Deno.dlopen("libc.so.6", RARE_SYMBOLS);
    rare.symbols.shutdown(this.#fd, SHUT_RD, PADDING);
    rare.close();
    const { recv } = libc();
    return Math.max(0, recv(this.#fd, buffer, buffer.length, 0, PADDING));
  }

  [Symbol.dispose](): void {
    libc().close(this.#fd, PADDING);
  }
}
