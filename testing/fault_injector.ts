/**
 * Failing an operation at any single step.
 *
 * The steps are not listed anywhere. They are what the operation does to the
 * kernel and to the disk, counted as it does them: every netlink request, every
 * sysctl, every file of a lease. So a step that is added later is tested from
 * then on.
 *
 * @module
 */

import { SyscallError } from "../ffi/errno.ts";
import { NetlinkSocket } from "../ffi/netlink/socket.ts";

/** When a step fails: instead of being done, or when it has been done. */
export type Moment = "instead" | "afterwards";

/** Counts steps, and fails one of them. */
export class FaultInjector implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #failing: number;
  readonly #moment: Moment;
  readonly #collecting = this.#stack.use(new Collecting());
  /** The steps so far, in order. */
  readonly steps: string[] = [];

  /**
   * Starts to count.
   *
   * @param failing Which step fails, from 1
   */
  constructor(failing: number, moment: Moment) {
    this.#failing = failing;
    this.#moment = moment;
    for (const method of ["request", "get", "dump"] as const) {
      this.#wrap(
        NetlinkSocket.prototype,
        method,
        ([type]) => (type as { name: string }).name,
      );
    }
    this.#wrap(
      NetlinkSocket.prototype,
      "requestAll",
      ([requests]) =>
        (requests as { name: string }[]).map(({ name }) => name).join(" "),
    );
    this.#wrapRequestEach();
    this.#wrap(Deno, "writeTextFileSync", ([path]) => `write ${path}`);
    this.#wrap(Deno, "renameSync", ([, path]) => `rename to ${path}`);
  }

  /** Puts a counter before a method. */
  #wrap<K extends string>(
    target: MethodsOf<K>,
    key: K,
    describe: (args: unknown[]) => string,
  ): void {
    this.#stack.defer(intercept(
      target,
      key,
      (args, work) => this.#step(describe(args), work),
    ));
  }

  /** Each request is a step, although they are sent together. */
  #wrapRequestEach(): void {
    const original = NetlinkSocket.prototype.requestEach;
    const count = (name: string): boolean => {
      this.steps.push(name);
      return this.steps.length === this.#failing;
    };
    const { steps } = this, moment = this.#moment;
    NetlinkSocket.prototype.requestEach = function (
      requests,
    ): (SyscallError | undefined)[] {
      const at = requests.map(({ name }) => count(name)).indexOf(true);
      if (at === -1) return original.call(this, requests);
      const error = injected(steps[steps.length - requests.length + at]);
      if (moment === "afterwards") {
        return original.call(this, requests).with(at, error);
      }
      const others = original.call(this, requests.toSpliced(at, 1));
      return others.toSpliced(at, 0, error);
    };
    this.#stack.defer(() => {
      NetlinkSocket.prototype.requestEach = original;
    });
  }

  #step(description: string, work: () => unknown): unknown {
    if (this.#collecting.isOn) return work();
    this.steps.push(description);
    if (this.steps.length !== this.#failing) return work();
    try {
      if (this.#moment === "afterwards") work();
    } finally {
      // deno-lint-ignore no-unsafe-finally -- replaces the error of the step
      throw injected(description);
    }
  }

  /** Puts everything back; a second call does nothing. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

function injected(description?: string): SyscallError {
  return new SyscallError(`injected into ${description}`, 5);
}

/** Watches when sockets collect requests, which are made when they are sent. */
export class Collecting implements Disposable {
  readonly #stop: () => void;
  /** Whether one is collecting now. */
  isOn = false;

  constructor() {
    const collect = (change: () => void): void => {
      this.isOn = true;
      try {
        change();
      } finally {
        this.isOn = false;
      }
    };
    this.#stop = intercept(
      NetlinkSocket.prototype,
      "attemptAll",
      (args, work) => {
        const [changes] = args as [(() => void)[]];
        args[0] = changes.map((change) => () => collect(change));
        return work();
      },
    );
  }

  [Symbol.dispose](): void {
    this.#stop();
  }
}

/** An object with a method. */
export type MethodsOf<K extends string> = {
  // deno-lint-ignore no-explicit-any -- any method of any object
  [key in K]: (...args: any[]) => unknown;
};

/**
 * Replaces a method.
 *
 * @param around Is told the arguments, and what the method would do
 * @returns How to put the method back
 */
export function intercept<K extends string>(
  target: MethodsOf<K>,
  key: K,
  around: (args: unknown[], work: () => unknown) => unknown,
): () => void {
  const original = target[key];
  target[key] = function (this: unknown, ...args: unknown[]): unknown {
    return around(args, () => original.apply(this, args));
  };
  return () => {
    target[key] = original;
  };
}
