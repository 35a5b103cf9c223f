/**
 * The steps by which an operation changes the node: requests to the kernel that
 * change something, files and directories, programs. Reads are no steps.
 *
 * Nothing in the product is made for this: methods are replaced in the test.
 *
 * @module
 */

import { SyscallError } from "../../ffi/errno.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { Collecting, intercept } from "../../testing/fault_injector.ts";

/** What happens after a step: it fails although it is done, or all that follows fails. */
export type Fault = "error" | "death";

/** Calls of Deno that change files. The last argument that is a text is the path. */
const FILE_CALLS = [
  "writeTextFileSync",
  "writeFileSync",
  "renameSync",
  "linkSync",
  "symlinkSync",
  "mkdirSync",
  "removeSync",
  "chmodSync",
  "openSync",
] as const;

/** Programs that read rules. */
const READS = /^-[SCL]$|^--(check|list|version)/;

/** Counts the steps, and does harm after one of them. */
export class NodeChanges implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #collecting = this.#stack.use(new Collecting());
  readonly #after: number;
  readonly #fault: Fault;
  #isDead = false;
  /** The steps so far. */
  readonly steps: string[] = [];

  /**
   * Starts to count.
   *
   * @param after The step after which it happens, from 1; none if undefined
   */
  constructor(after = Infinity, fault: Fault = "error") {
    this.#after = after;
    this.#fault = fault;
    this.#watchNetlink();
    for (const call of FILE_CALLS) {
      this.#stack.defer(intercept(Deno, call, (args, work) => {
        const name = /^(write|[a-z]+)/.exec(call)?.[0];
        return isChange(call, args)
          ? this.#step(`${name} ${pathOf(args)}`, work)
          : work();
      }));
    }
    this.#watchPrograms();
  }

  #watchNetlink(): void {
    const { prototype } = NetlinkSocket;
    this.#stack.defer(intercept(prototype, "request", (args, work) => {
      const [{ name }] = args as [{ name: string }];
      const isRead = this.#collecting.isOn || /_GET/.test(name);
      return isRead ? work() : this.#step(name, work);
    }));
    this.#stack.defer(intercept(prototype, "requestAll", (args, work) => {
      const [requests] = args as [{ name: string }[]];
      const isTrial = requests.some(({ name }) => / tried$/.test(name));
      return isTrial ? work() : this.#step(describeBatch(requests), work);
    }));
    this.#stack.defer(intercept(prototype, "requestEach", (args, work) => {
      const [requests] = args as [{ name: string }[]];
      return this.#each(requests, args, work);
    }));
  }

  /** Each request is a step, although they are sent together. */
  #each(
    requests: readonly { name: string }[],
    args: unknown[],
    work: () => unknown,
  ): unknown {
    this.#refuseDead();
    const before = this.steps.length;
    this.steps.push(...requests.map(({ name }) => name));
    const at = this.#after - before - 1;
    if (at < 0 || at >= requests.length) return work();
    if (this.#fault === "error") {
      return (work() as unknown[]).with(at, injected(requests[at]?.name));
    }
    args[0] = requests.slice(0, at + 1);
    work();
    return this.#die();
  }

  #watchPrograms(): void {
    const { Command } = Deno;
    const begin = (path: string | URL, args: readonly string[]): boolean =>
      !args.some((arg) => READS.test(arg)) &&
      this.#begin(`run ${path} ${args.slice(0, 2).join(" ")}`.trim());
    const fails = (): boolean => this.#fault === "error";
    Deno.Command = class extends Command {
      constructor(path: string | URL, options: Deno.CommandOptions = {}) {
        const isLast = begin(path, options.args ?? []);
        if (!isLast || !fails()) return super(path, options) as never;
        const script = '"$0" "$@"; exit 1';
        const args = ["-c", script, String(path), ...options.args ?? []];
        super("/bin/sh", { ...options, args });
      }
    };
    this.#stack.defer(() => {
      Deno.Command = Command;
    });
  }

  /** Counts a step; returns whether the fault follows it. */
  #begin(description: string): boolean {
    this.#refuseDead();
    const isLast = this.steps.push(description) === this.#after;
    if (isLast && this.#fault === "death") this.#isDead = true;
    return isLast;
  }

  #step(description: string, work: () => unknown): unknown {
    if (!this.#begin(description)) return work();
    const result = work();
    // A file that could not be opened has no descriptor.
    if (result instanceof Deno.FsFile) result.close();
    throw injected(description);
  }

  #refuseDead(): void {
    if (this.#isDead) throw new SyscallError("the process is dead", 5);
  }

  #die(): never {
    this.#isDead = true;
    throw new SyscallError("the process is dead", 5);
  }

  /** Puts everything back; a second call does nothing. */
  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

function injected(description = ""): SyscallError {
  return new SyscallError(`injected into ${description}`, 5);
}

function pathOf(args: readonly unknown[]): string {
  const paths = args.slice(0, 2).filter((arg) => typeof arg === "string");
  const [first = ""] = paths;
  // The content of a file is not a path.
  return paths.length === 2 && paths[1]?.startsWith("/") ? paths[1] : first;
}

/** Reports whether a call changes a file: not if what it makes is there. */
function isChange(call: string, args: readonly unknown[]): boolean {
  const path = pathOf(args);
  if (/^\/proc\/(self|thread-self|\d+)\//.test(path)) return false;
  const { create, createNew } = (args[1] ?? {}) as Deno.OpenOptions;
  if (call === "openSync" && !create && !createNew) return false;
  return !["openSync", "mkdirSync"].includes(call) || !exists(path);
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

function describeBatch(requests: readonly { name: string }[]): string {
  const names = Map.groupBy(
    requests.map(({ name }) => name.replace("NFT_MSG_", ""))
      .filter((name) => !name.includes("BATCH")),
    (name) => name,
  );
  const parts = [...names].map(([name, all]) =>
    all.length > 1 ? `${all.length} ${name}` : name
  );
  return `nftables: ${parts.join(", ")}`;
}
