/**
 * The system calls of a program, as strace(1) reports them.
 *
 * @module
 */

import { importFlags } from "../../scripts/import_flags.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { runIn } from "../../testing/ip_json.ts";

/** Calls of V8 and Deno, which come and go. */
const OF_THE_ENGINE =
  /^(futex|mprotect|madvise|mmap|munmap|mremap|brk|sched_\w+|clock_\w+|get\w*id|epoll_\w+|eventfd2|rt_sig\w+|clone3?|socketpair|restart_syscall|prctl|write)$/;

/** Calls whose results are bytes that were read. */
const READING = /^(recv\w*|p?read\w*|getdents64)$/;

/** What a part of the program has done. */
export interface TracedCalls {
  /** How often, by name. */
  readonly calls: Readonly<Record<string, number>>;
  /** How often altogether. */
  readonly count: number;
  /** What it has read from the kernel and from files. */
  readonly bytes: number;
  /** How many programs it has run. */
  readonly programs: number;
  /** What these have read. */
  readonly programBytes: number;
}

/** Variables with files of certificates. */
const CERTIFICATES = ["DENO_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"];

/**
 * Runs a program of `tests/_harness` in a namespace.
 *
 * @param directory For the trace
 * @returns What its main thread has done after it looked for each file `/mark-NAME`,
 *   until it looked for `/mark-pause`; of parts with the same name, the fewest calls
 *   and bytes
 */
export async function traceProgram(
  netns: NetNs,
  directory: string,
  [program, ...args]: readonly [program: string, ...args: string[]],
): Promise<Map<string, TracedCalls>> {
  const trace = `${directory}/trace`;
  runIn(
    netns,
    // Otherwise, the engine reads certificates at some time.
    "env",
    ...CERTIFICATES.flatMap((name) => ["-u", name]),
    "strace",
    ...["-f", "--seccomp-bpf", "-qq", "-s", "100"],
    // Everything else would be more than a text can have.
    ...["-o", `|sed -n '/"\\/mark-/,/"\\/mark-pause/p' > ${trace}`],
    // The most frequent ones: each costs a stop.
    ...["-e", "trace=!futex,mprotect,madvise,mmap,munmap,write,epoll_wait"],
    ...[Deno.execPath(), "run", "-A"],
    ...await importFlags(),
    ...[new URL(program, import.meta.url).pathname, ...args],
  );
  return splitTrace(await Deno.readTextFile(trace));
}

/** Splits a trace at its marks. */
function splitTrace(trace: string): Map<string, TracedCalls> {
  const lines = trace.split("\n");
  const [main] = lines.find((line) => line.includes("/mark-"))?.split(" ") ??
    [];
  const parts = new Map<string, TracedCalls[]>();
  const programs = new Set<string | undefined>();
  let part = newPart();
  for (const line of lines) {
    const [, thread, begun, resumed] =
      /^(\d+) +(?:(\w+)\(|<\.\.\. (\w+) resumed>)/.exec(line) ?? [];
    const name = begun ?? resumed;
    if (name === undefined) continue;
    const result = Number(/ = (\d+)$/.exec(line)?.[1] ?? 0);
    if (thread !== main) {
      if (begun === "execve" && !programs.has(thread)) {
        programs.add(thread);
        part.programs++;
      }
      if (programs.has(thread) && READING.test(name)) {
        part.programBytes += result;
      }
      continue;
    }
    const [, mark] = /"\/mark-([^"]+)"/.exec(line) ?? [];
    if (mark !== undefined) {
      parts.set(mark, [...parts.get(mark) ?? [], part = newPart()]);
      continue;
    }
    if (OF_THE_ENGINE.test(name)) continue;
    if (begun !== undefined) {
      part.calls[name] = (part.calls[name] ?? 0) + 1;
      part.count++;
    }
    if (READING.test(name)) part.bytes += result;
  }
  const least = (some: readonly TracedCalls[]): TracedCalls => ({
    ...some.reduce((one, other) => other.count < one.count ? other : one),
    bytes: Math.min(...some.map(({ bytes }) => bytes)),
  });
  return new Map(parts.entries().map(([mark, some]) => [mark, least(some)]));
}

/** A part while it is read. */
type Part = { -readonly [K in keyof TracedCalls]: TracedCalls[K] } & {
  calls: Record<string, number>;
};

function newPart(): Part {
  return { calls: {}, count: 0, bytes: 0, programs: 0, programBytes: 0 };
}
