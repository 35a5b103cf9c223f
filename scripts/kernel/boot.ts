/**
 * Boots User-mode Linux: a kernel that runs as a process, without emulation.
 *
 * Source: docs.kernel.org/virt/uml/user_mode_linux_howto_v2.html
 *
 * @module
 */

/** A program that is a kernel. */
export interface Kernel {
  /** A path or a command. */
  readonly program: string;
  /** The directory that it is started in; the current one by default. */
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
  /** An empty directory for the kernel's sockets, and for its memory if /dev/shm is too small. */
  readonly directory: string;
  /**
   * The processor that the kernel and its processes run on, from 0; any without
   * it. They wait for each other at each system call, which costs twice as much
   * between two processors.
   */
  readonly processor?: number | undefined;
  /** Ends the kernel; its reason is told. */
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

/** How long the kernel may take to end after SIGTERM. */
const GRACE_MS = 5000;

/**
 * Boots a kernel on the machine's file system, which it cannot write, and waits
 * for its end.
 *
 * @throws {Deno.errors.NotFound} If the kernel is not installed
 */
export async function boot(options: BootOptions): Promise<BootEnd> {
  const { kernel, directory, processor, stop, onText } = options;
  const env = {
    ...kernel.env,
    TMPDIR: await chooseMemoryDirectory(directory),
  };
  const pin = processor === undefined ? [] : pinTo(processor, env);
  const [program = "", ...args] = [...pin, kernel.program]
    .concat(listWords(options));
  // A process group of its own: the kernel's processes are processes here.
  await using child = new Deno.Command(program, {
    args,
    env: processor === undefined ? env : {},
    ...kernel.cwd === undefined ? {} : { cwd: kernel.cwd },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    detached: true,
  }).spawn();
  const ending = new Ending(child);
  const end = (): void => ending.begin(String(stop.reason));
  stop.addEventListener("abort", end);
  if (stop.aborted) end();
  try {
    const [output, log] = await Promise.all([
      readText(child.stdout, onText),
      readText(child.stderr, () => {}),
      child.status,
    ]);
    return { output, log, stopped: ending.reason };
  } finally {
    stop.removeEventListener("abort", end);
    ending.finish();
  }
}

/**
 * Returns a command that runs another on one processor. Only the other one gets
 * the variables: its libraries may not be those of taskset.
 */
function pinTo(
  processor: number,
  env: Readonly<Record<string, string>>,
): string[] {
  const variables = Object.entries(env)
    .map(([name, value]) => `${name}=${value}`);
  return ["taskset", "-c", `${processor}`, "env", ...variables];
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
  const { stdout } = await new Deno.Command("df", {
    args: ["--output=avail", "-m", "/dev/shm"],
    stderr: "null",
  }).output();
  const [, free = "0"] = new TextDecoder().decode(stdout).trim().split("\n");
  return Number(free) > MEMORY_MIB ? "/dev/shm" : otherwise;
}

/** Ends a process and its group, gently first. */
class Ending {
  readonly #child: Deno.ChildProcess;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Why it was ended; undefined if it was not. */
  reason: string | undefined;

  constructor(child: Deno.ChildProcess) {
    this.#child = child;
  }

  begin(reason: string): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    send(this.#child.pid, "SIGTERM");
    this.#timer = setTimeout(
      () => send(-this.#child.pid, "SIGKILL"),
      GRACE_MS,
    );
  }

  /** Ends what is left of the group. */
  finish(): void {
    clearTimeout(this.#timer);
    send(-this.#child.pid, "SIGKILL");
  }
}

function send(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

async function readText(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onText: (text: string) => void,
): Promise<string> {
  let text = "";
  for await (const part of stream.pipeThrough(new TextDecoderStream())) {
    text += part;
    onText(part);
  }
  return text;
}
