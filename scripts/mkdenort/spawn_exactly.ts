/**
 * Starts a process with any arguments and environment that the kernel accepts:
 * tests need some that `Deno.Command` cannot express, such as an entry without
 * `=`, a variable that is there twice, or no argument at all.
 *
 * @module
 */

const libc = {
  posix_spawn: {
    parameters: ["buffer", "buffer", "buffer", "pointer", "buffer", "buffer"],
    result: "i32",
  },
  posix_spawn_file_actions_init: { parameters: ["buffer"], result: "i32" },
  posix_spawn_file_actions_addopen: {
    parameters: ["buffer", "i32", "buffer", "i32", "u32"],
    result: "i32",
  },
  waitpid: { parameters: ["i32", "buffer", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Room for `posix_spawn_file_actions_t`, which has 80 bytes in glibc. */
const FILE_ACTIONS_SIZE = 256;
const O_WRONLY = 1;

/** A process to start. */
export interface ExactProcess {
  readonly path: string;
  /** All of argv, with `argv[0]`. */
  readonly argv: readonly string[];
  /** Entries of the environment, in order. */
  readonly environment: readonly string[];
}

/** Starts a process, waits for its end, and returns its exit status and what it wrote to stdout. */
export function runExactly(
  { path, argv, environment }: ExactProcess,
): { readonly code: number; readonly stdout: string } {
  const library = Deno.dlopen("libc.so.6", libc);
  const output = Deno.makeTempFileSync();
  const stdout = encode(output);
  const actions = new Uint8Array(FILE_ACTIONS_SIZE);
  const { symbols } = library;
  symbols.posix_spawn_file_actions_init(actions);
  symbols.posix_spawn_file_actions_addopen(actions, 1, stdout, O_WRONLY, 0);
  const pid = new Int32Array(1);
  const status = new Int32Array(1);
  // In variables, so that they are not collected while C reads them.
  const [args, variables] = [argv, environment].map(encodeList);
  const error = symbols.posix_spawn(
    pid,
    encode(path),
    actions,
    null,
    args?.pointers ?? null,
    variables?.pointers ?? null,
  );
  if (error !== 0) throw new Error(`Cannot start "${path}": errno ${error}`);
  symbols.waitpid(pid[0] ?? 0, status, 0);
  const text = Deno.readTextFileSync(output);
  Deno.removeSync(output);
  library.close();
  return { code: (status[0] ?? 0) >> 8 & 0xff, stdout: text };
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`);
}

/** Creates an array of pointers to texts, with NULL at its end; `texts` keeps them alive. */
function encodeList(list: readonly string[]): {
  readonly texts: readonly Uint8Array[];
  readonly pointers: BigUint64Array<ArrayBuffer>;
} {
  const texts = list.map(encode);
  const pointers = new BigUint64Array(texts.length + 1);
  texts.forEach((text, index) => {
    pointers[index] = Deno.UnsafePointer.value(Deno.UnsafePointer.of(text));
  });
  return { texts, pointers };
}
