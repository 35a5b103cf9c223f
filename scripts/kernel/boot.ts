/**
 * Boots User-mode Linux: a kernel that runs as a process, without emulation.
 *
 * Source: docs.kernel.org/virt/uml/user_mode_linux_howto_v2.html
 *
 * @module
 */

import { run } from "../project.ts";
import { runProcess } from "../test/run.ts";

/** A program that is a kernel. */
export interface Kernel {
  /** A path or a command. */
  readonly program: string;
  /** The directory that it is started in; the root by default. */
  readonly cwd?: string;
  /** Variables that it is started with. */
  readonly env: Readonly<Record<string, string>>;
  /** The directory of its modules: in it, one for each version. */
  readonly modules: string;
}

/** A kernel, its first process, and the surroundings of both. */
export interface BootOptions {
  readonly kernel: Kernel;
  /** The script that is the first process. */
  readonly init: string;
  /** Variables for the script. Values have no whitespace. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * A directory for the kernel's sockets, its messages (`kernel.log`), and its
   * memory if /dev/shm is too small.
   */
  readonly directory: string;
  /**
   * The processor that the kernel and its processes run on, from 0; any without
   * it. They wait for each other at each system call, which costs twice as much
   * between two processors.
   */
  readonly processor?: number | undefined;
  /** Ends the kernel, and reports the signal's reason. */
  readonly stop: AbortSignal;
  /** Is given what the second console prints, as it comes. */
  readonly onText: (text: string) => void;
}

/** How a kernel ended. */
export interface BootEnd {
  /** The text from the second console. */
  readonly output: string;
  /** The kernel's messages. */
  readonly log: string;
  /** Why we ended it, if we did. */
  readonly stopped: string | undefined;
}

/** The most memory for the kernel. The host only gives it what is used. */
const MEMORY_MIB = 2048;

/**
 * A network device with hardware, `vec0`. What it sends once it is up goes to port
 * 9 of the machine's loopback interface, where nothing listens.
 *
 * Source: docs.kernel.org/virt/uml/user_mode_linux_howto_v2.html
 */
const DEVICE = "vec0:transport=l2tpv3,udp=1,src=127.0.0.1,dst=127.0.0.1," +
  "srcport=0,dstport=9,rx_session=1,tx_session=1";

/**
 * Boots a kernel on the machine's file system, which it cannot write, and waits
 * for its end.
 */
export async function boot(options: BootOptions): Promise<BootEnd> {
  const { kernel, directory, processor, stop, onText } = options;
  const messages = `${directory}/kernel.log`;
  const pin = processor === undefined ? [] : ["taskset", "-c", `${processor}`];
  const memory = await chooseMemoryDirectory(directory);
  // Only the kernel gets the variables: its libraries may not be the machine's.
  const variables = Object.entries({ ...kernel.env, TMPDIR: memory })
    .map(([name, value]) => `${name}=${value}`);
  const command = [...pin, "env", ...variables, kernel.program]
    .concat(listWords(options));
  const { output, stopped } = await runProcess(
    ["sh", "-c", 'exec "$@" 2>> "$0"', messages, ...command],
    { cwd: kernel.cwd ?? "/", env: {}, stop, onText },
  );
  return { output, log: await Deno.readTextFile(messages), stopped };
}

/** The command line, with the machine's root directory as the root, read-only. */
function listWords({ init, env, directory }: BootOptions): string[] {
  const words = [
    `mem=${MEMORY_MIB}M`,
    // Without ptrace(2), where both kernels can: several times as fast.
    "seccomp=auto",
    "rootfstype=hostfs",
    "rootflags=/",
    "ro",
    `init=${init}`,
    `uml_dir=${directory}/`,
    "con=null",
    "con0=null,fd:2",
    "con1=null,fd:1",
    DEVICE,
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
  ];
  const bad = words.find((word) => /\s/.test(word));
  if (bad === undefined) return words;
  throw new Error(`Cannot boot a kernel with whitespace in "${bad}"`);
}

/** Memory is a file: best in memory, but that may be too small in a container. */
async function chooseMemoryDirectory(otherwise: string): Promise<string> {
  const df = ["--output=avail", "-m", "/dev/shm"];
  const { stdout } = await run("df", df).catch(() => ({ stdout: "" }));
  const [, free = "0"] = stdout.trim().split("\n");
  return Number(free) > MEMORY_MIB ? "/dev/shm" : otherwise;
}
