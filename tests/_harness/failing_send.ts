/**
 * A machine that runs out of buffers at any single request to the kernel.
 *
 * @module
 */

const ENOBUFS = 105;

/** Counts sent messages, and makes one send(2) fail. */
export class FailingSend {
  /** How many were sent. */
  sent = 0;
  /** Which one fails, from 1; none if 0. */
  failing = 0;

  private constructor() {}

  /**
   * Puts itself before send(2) of the C library, for good. The library must not
   * have been opened yet.
   */
  static install(): FailingSend {
    const self = new FailingSend();
    const dlopen = Deno.dlopen;
    // deno-lint-ignore no-explicit-any -- whichever symbols are asked for
    Deno.dlopen = ((path: string, symbols: any): any => {
      const library = dlopen(path, symbols);
      if (!("send" in symbols)) return library;
      return { symbols: self.#around(library.symbols) };
    }) as typeof Deno.dlopen;
    return self;
  }

  // deno-lint-ignore no-explicit-any -- as above
  #around(symbols: any): unknown {
    const send = (...args: unknown[]): unknown => {
      if (++this.sent !== this.failing) return symbols.send(...args);
      const location = symbols.__errno_location(args.at(-1));
      new Int32Array(Deno.UnsafePointerView.getArrayBuffer(location, 4))[0] =
        ENOBUFS;
      return -1;
    };
    return { ...symbols, send };
  }
}
