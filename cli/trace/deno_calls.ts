/**
 * Traces files, processes and system calls.
 *
 * @module
 */

import type { Begun, Recorder } from "./recorder.ts";

// deno-lint-ignore no-explicit-any -- functions with any arguments
type AnyFunction = (...args: any[]) => any;
type Functions = Record<string, AnyFunction>;

/** Functions of Deno with a path as their first argument; each also without `Sync`. */
const FILES = [
  ...["readFile", "readTextFile", "writeFile", "writeTextFile", "open"],
  ...["remove", "mkdir", "rename", "link", "symlink", "stat", "lstat"],
  ...["readDir", "readLink", "chmod", "makeTempFile", "makeTempDir"],
];

/** System calls worth showing; requests of netlink are shown as such. */
const SYSTEM_CALLS = [
  ...["setns", "open", "mount", "umount2", "unshare", "flock", "ioctl"],
  ...["bind", "socket"],
];

/**
 * Records what this process does with files, processes and system calls.
 *
 * @param trace Path of the trace, which is not recorded
 * @returns Stops it
 */
export function traceDeno(recorder: Recorder, trace: string): () => void {
  const deno = Deno as unknown as Functions;
  const originals = new Map<string, AnyFunction>();
  const replace = (
    name: string,
    by: (original: AnyFunction) => unknown,
  ): void => {
    const original = deno[name];
    if (original === undefined) return;
    originals.set(name, original);
    deno[name] = by(original) as AnyFunction;
  };
  for (const name of FILES.flatMap((file) => [file, `${file}Sync`])) {
    replace(name, (original) => (...args: unknown[]): unknown => {
      const object = describePaths(name, args);
      const work = (): unknown => original(...args);
      if (object === trace) return work();
      const subject = {
        kind: "file",
        name: name.replace(/Sync$/, ""),
        object,
      } as const;
      return recorder.around(subject, work);
    });
  }
  const stopPrograms = tracePrograms(recorder);
  replace(
    "dlopen",
    (original) => (...args: unknown[]): unknown =>
      traceLibrary(recorder, original(...args)),
  );
  return () => {
    Object.assign(deno, Object.fromEntries(originals));
    stopPrograms();
  };
}

/**
 * Records the programs that this process runs.
 *
 * @returns Stops it
 */
export function tracePrograms(recorder: Recorder): () => void {
  const { Command } = Deno;
  Deno.Command = traceCommand(recorder, Command);
  return () => {
    Deno.Command = Command;
  };
}

function describePaths(name: string, args: readonly unknown[]): string {
  const isPair = /^(rename|link|symlink)/.test(name);
  return args.slice(0, isPair ? 2 : 1)
    .filter((path) => typeof path === "string" || path instanceof URL)
    .map(String).join(" → ");
}

/** Returns a class that records the start and exit of processes. */
function traceCommand(
  recorder: Recorder,
  Original: typeof Deno.Command,
): typeof Deno.Command {
  return class extends Original {
    readonly #begun: Begun;
    constructor(path: string | URL, options: Deno.CommandOptions = {}) {
      const begun = recorder.begin({
        kind: "process",
        name: `run ${String(path).replace(/.*\//, "")}`,
        object: [String(path), ...options.args ?? []].join(" "),
      });
      const env = { ...options.env, ...begun.variables };
      super(path, Object.keys(env).length > 0 ? { ...options, env } : options);
      this.#begun = begun;
    }

    override spawn(): Deno.ChildProcess {
      const child = this.#begin(() => super.spawn());
      child.status.then((status) => this.#end(status), () => {});
      return child;
    }

    override output(): Promise<Deno.CommandOutput> {
      const output = this.#begin(() => super.output());
      output.then((status) => this.#end(status), () => {});
      return output;
    }

    override outputSync(): Deno.CommandOutput {
      const output = this.#begin(() => super.outputSync());
      this.#end(output);
      return output;
    }

    #begin<T>(start: () => T): T {
      try {
        return start();
      } catch (error) {
        this.#begun.end({ error });
        throw error;
      }
    }

    #end({ code, signal }: Deno.CommandStatus): void {
      this.#begun.end({ more: { code, ...signal && { signal } } });
    }
  };
}

/** Wraps the symbols of a library. The caller reads errno next, so nothing is written before. */
function traceLibrary(
  recorder: Recorder,
  library: { readonly symbols: Functions },
): unknown {
  const symbols: Functions = { ...library.symbols };
  for (const name of SYSTEM_CALLS) {
    const original = symbols[name];
    if (original === undefined) continue;
    symbols[name] = (...args: unknown[]): unknown => {
      const startMs = performance.now();
      const result: unknown = original(...args);
      const isRefused = typeof result === "number" && result < 0;
      // Reading the clock could change errno.
      const endMs = isRefused ? startMs : performance.now();
      recorder.addLater(() => {
        const paths = args.map(formatPath).filter(Boolean);
        const numbers = args.filter((one) => typeof one === "number");
        const object = (paths.length > 0 ? paths : numbers).join(" ");
        const more = { result: String(result) };
        recorder.add({ kind: "system", name, object }, startMs, {
          more,
          endMs,
        });
      });
      return result;
    };
  }
  return { symbols };
}

/** Shows a path that ends with NUL; "" for other arguments. */
function formatPath(value: unknown): string {
  if (!(value instanceof Uint8Array)) return "";
  const terminator = value.indexOf(0);
  const text = new TextDecoder().decode(
    value.subarray(0, Math.max(0, terminator)),
  );
  return /^[/\w][^\p{Cc}]*$/u.test(text) ? text : "";
}
