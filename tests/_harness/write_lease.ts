/**
 * A lease of fcntl(2), which shows whether another program opens a file. Without
 * waiting, open(2) of the file fails with EAGAIN.
 *
 * @module
 */

/** Source: include/uapi/linux/fcntl.h and asm-generic/fcntl.h. */
const F_SETSIG = 10, F_SETLEASE = 1024, F_GETLEASE = 1025, F_WRLCK = 1;
const O_RDWR = 2, O_CLOEXEC = 0o2000000;
/** A signal that processes ignore. Source: include/uapi/asm-generic/signal.h. */
const SIGURG = 23;

const SYMBOLS = {
  open: { parameters: ["buffer", "i32", "i32"], result: "i32" },
  fcntl: { parameters: ["i32", "i32", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
} as const;

/** A lease of a file that no other program has open. */
export class WriteLease implements Disposable {
  readonly #libc = Deno.dlopen("libc.so.6", SYMBOLS);
  readonly #fd: number;

  /** Takes the lease of an existing file. */
  constructor(path: string) {
    const { open } = this.#libc.symbols;
    const bytes = new TextEncoder().encode(`${path}\0`);
    this.#fd = open(bytes, O_RDWR | O_CLOEXEC, 0);
    this.#control(F_SETSIG, SIGURG);
    this.#control(F_SETLEASE, F_WRLCK);
  }

  /** Whether a program has tried to open the file. */
  get isBroken(): boolean {
    return this.#control(F_GETLEASE, 0) !== F_WRLCK;
  }

  #control(command: number, value: number): number {
    const result = this.#libc.symbols.fcntl(this.#fd, command, value);
    if (result < 0) throw new Error(`fcntl(${command}) failed`);
    return result;
  }

  /** Releases it. */
  [Symbol.dispose](): void {
    this.#libc.symbols.close(this.#fd);
    this.#libc.close();
  }
}
