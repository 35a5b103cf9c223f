/**
 * Exit statuses of processes, worded as in Go.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";

/**
 * The signals that end a process.
 *
 * Source: Go syscall/zerrors_linux_amd64.go `signals`.
 */
const SIGNALS: Readonly<Record<string, string>> = {
  SIGHUP: "hangup",
  SIGINT: "interrupt",
  SIGQUIT: "quit",
  SIGILL: "illegal instruction",
  SIGTRAP: "trace/breakpoint trap",
  SIGABRT: "aborted",
  SIGBUS: "bus error",
  SIGFPE: "floating point exception",
  SIGKILL: "killed",
  SIGUSR1: "user defined signal 1",
  SIGSEGV: "segmentation fault",
  SIGUSR2: "user defined signal 2",
  SIGPIPE: "broken pipe",
  SIGALRM: "alarm clock",
  SIGTERM: "terminated",
  SIGSTKFLT: "stack fault",
  SIGXCPU: "CPU time limit exceeded",
  SIGXFSZ: "file size limit exceeded",
  SIGVTALRM: "virtual timer expired",
  SIGPROF: "profiling timer expired",
  SIGIO: "I/O possible",
  SIGPWR: "power failure",
  SIGSYS: "bad system call",
};

/** How a process ended. */
export interface ExitStatus {
  readonly success: boolean;
  /** `exit status 3`, `signal: killed`. */
  readonly cause: string;
  /** The abort signal, if that is why it was killed. */
  readonly abort?: AbortSignal;
}

/**
 * Waits for a process to end.
 *
 * Source: Go os/exec_posix.go `ProcessState.String`.
 */
export async function waitForExit(
  child: Deno.ChildProcess,
): Promise<ExitStatus> {
  try {
    const { success, code, signal } = await child.status;
    return {
      success,
      cause: signal === null
        ? `exit status ${code}`
        : `signal: ${SIGNALS[signal] ?? signal}`,
    };
  } catch (error) {
    // Deno cannot name a real-time signal, and fails with its number instead.
    const [number = "unknown"] = /\d+$/.exec(describeError(error)) ?? [];
    return { success: false, cause: `signal: signal ${number}` };
  }
}
