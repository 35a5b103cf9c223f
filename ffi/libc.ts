/**
 * System calls, made by FFI to the C library: synchronous, apart from a few that
 * wait on other threads.
 *
 * `epoll.ts` and `socket/unix_stream.ts` open the library for themselves;
 * nothing else in `ffi/` does. It is opened on first use, so calls that need none of these system
 * calls (VERSION, host-local) do not pay for it.
 *
 * @module
 */

import type { Bytes } from "../net/bytes.ts";
import { SyscallError } from "./errno.ts";

/**
 * An extra by-value argument that makes Deno skip its just-in-time compiler for
 * a symbol. Each symbol then takes 0.05 ms instead of 0.3 ms at start-up, and
 * each call 0.2 µs more. The argument is passed in the register after the real
 * arguments, which the callee ignores: in the C calling conventions of x86-64
 * and arm64 the caller cleans up. This works for up to five real arguments,
 * because x86-64 passes six in registers.
 */
const UNCOMPILED = { struct: ["i32"] } as const;
const PADDING: Bytes = new Uint8Array(4);

const SYMBOLS = {
  socket: { parameters: ["i32", "i32", "i32", UNCOMPILED], result: "i32" },
  setsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "u32", UNCOMPILED],
    result: "i32",
  },
  connect: {
    parameters: ["i32", "buffer", "u32", UNCOMPILED],
    result: "i32",
  },
  send: {
    parameters: ["i32", "buffer", "i32", "i32", UNCOMPILED],
    result: "i32",
  },
  recv: {
    parameters: ["i32", "buffer", "i32", "i32", UNCOMPILED],
    result: "i32",
  },
  open: { parameters: ["buffer", "i32", "i32", UNCOMPILED], result: "i32" },
  close: { parameters: ["i32", UNCOMPILED], result: "i32" },
  setns: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  __errno_location: { parameters: [UNCOMPILED], result: "pointer" },
} as const;

/** Symbols to create and mount namespaces, which plugins do not need. */
const NAMESPACE_SYMBOLS = {
  unshare: { parameters: ["i32", UNCOMPILED], result: "i32" },
  fchdir: { parameters: ["i32", UNCOMPILED], result: "i32" },
  chroot: { parameters: ["buffer", UNCOMPILED], result: "i32" },
  mount: {
    parameters: ["buffer", "buffer", "buffer", "u64", "buffer", UNCOMPILED],
    result: "i32",
  },
  umount2: { parameters: ["buffer", "i32", UNCOMPILED], result: "i32" },
  ioctl: { parameters: ["i32", "u64", UNCOMPILED], result: "i32" },
} as const;

/** Symbols that a resident process calls on other threads, with their own errno. */
const THREADED_SYMBOLS = {
  send: {
    parameters: ["i32", "buffer", "i32", "i32"],
    result: "i32",
    // deno-lint-ignore cni/kernel-is-sync -- a socket stays in its namespace
    nonblocking: true,
  },
  poll: {
    parameters: ["buffer", "u64", "i32"],
    result: "i32",
    // deno-lint-ignore cni/kernel-is-sync -- a socket stays in its namespace
    nonblocking: true,
  },
} as const;

/** Symbols that few plugins need. */
const LOCK_SYMBOLS = {
  flock: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  fcntl: { parameters: ["i32", "i32", "i32", UNCOMPILED], result: "i32" },
} as const;

/** Symbols to replace this program with another one. */
const EXEC_SYMBOLS = {
  signal: { parameters: ["i32", "usize"], result: "usize" },
  setrlimit: { parameters: ["i32", "buffer"], result: "i32" },
  execvpe: { parameters: ["buffer", "buffer", "buffer"], result: "i32" },
} as const;

/** Symbols to create tap devices. */
const DEVICE_SYMBOLS = {
  withBytes: {
    name: "ioctl",
    parameters: ["i32", "u64", "buffer", UNCOMPILED],
    result: "i32",
  },
  withNumber: {
    name: "ioctl",
    parameters: ["i32", "u64", "u64", UNCOMPILED],
    result: "i32",
  },
} as const;

/** Symbols of a server on unix sockets. */
const SERVER_SYMBOLS = {
  bind: { parameters: ["i32", "buffer", "u32", UNCOMPILED], result: "i32" },
  listen: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  accept4: {
    parameters: ["i32", "pointer", "pointer", "i32", UNCOMPILED],
    result: "i32",
  },
  getsockopt: {
    parameters: ["i32", "i32", "i32", "buffer", "buffer", UNCOMPILED],
    result: "i32",
  },
  shutdown: { parameters: ["i32", "i32", UNCOMPILED], result: "i32" },
  poll: { parameters: ["buffer", "u64", "i32", UNCOMPILED], result: "i32" },
  epoll_create1: { parameters: ["i32", UNCOMPILED], result: "i32" },
  epoll_ctl: {
    parameters: ["i32", "i32", "i32", "buffer", UNCOMPILED],
    result: "i32",
  },
} as const;

/** Symbols of sockets that receive whole frames. */
const MESSAGE_SYMBOLS = {
  recvmsg: { parameters: ["i32", "buffer", "i32", UNCOMPILED], result: "i32" },
} as const;

/** Symbols about file systems. */
const DISK_SYMBOLS = {
  statfs: { parameters: ["buffer", "buffer", UNCOMPILED], result: "i32" },
  access: { parameters: ["buffer", "i32", UNCOMPILED], result: "i32" },
} as const;

/** Symbols of a process that lives for long. */
const MEMORY_SYMBOLS = {
  malloc_trim: { parameters: ["usize", UNCOMPILED], result: "i32" },
} as const;

/** The opened library, and the address of this thread's errno. */
interface Libc {
  readonly symbols: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];
  readonly errno: Int32Array;
}

let opened: Libc | undefined;

function libc(): Libc {
  if (opened !== undefined) return opened;
  const { symbols } = Deno.dlopen("libc.so.6", SYMBOLS);
  const location = symbols.__errno_location(PADDING);
  if (location === null) throw new Error("Cannot find errno of this thread");
  const errno = new Int32Array(
    Deno.UnsafePointerView.getArrayBuffer(location, 4),
  );
  return opened = { symbols, errno };
}

let namespaces:
  | Deno.DynamicLibrary<typeof NAMESPACE_SYMBOLS>["symbols"]
  | undefined;

function namespaceCalls(): NonNullable<typeof namespaces> {
  libc(); // finds errno
  return namespaces ??= Deno.dlopen("libc.so.6", NAMESPACE_SYMBOLS).symbols;
}

/** Source: include/uapi/asm-generic/errno-base.h. */
const EINTR = 4, EBADF = 9, EAGAIN = 11;

/** How often a call that fails with EAGAIN is made in all. */
const ATTEMPTS = 3;

/**
 * Makes a call, and reads errno right after it: any Deno API in between may change
 * it.
 *
 * So may a handler of a signal: the runtime's writes to a pipe, and leaves EAGAIN
 * if the pipe is full. A call that fails has changed nothing, so it is made again
 * to see whether the kernel means it.
 *
 * @param again Makes it again
 * @returns Negative errno if it fails
 */
function attempt(call: () => number, again: () => number = call): number {
  for (let left = ATTEMPTS, next = call;; next = again) {
    const result = next();
    if (result >= 0) return result;
    const errno = opened?.errno[0] ?? 0;
    if (errno !== EAGAIN || --left === 0) return -errno;
  }
}

/**
 * Makes a call that may wait until a time limit of its socket. At the end of the
 * limit it fails with EAGAIN, too, so it does not wait a second time.
 */
function attemptOnSocket(
  flags: number,
  call: (flags: number) => number,
): number {
  return attempt(() => call(flags), () => call(flags | MSG_DONTWAIT));
}

/**
 * Returns a call's result, or throws the error that errno names.
 *
 * @throws {SyscallError} If the result is negative
 */
function checked(
  syscall: string,
  call: () => number,
  action: string = syscall,
): number {
  return unlessFailed(syscall, attempt(call), action);
}

function unlessFailed(
  syscall: string,
  result: number,
  action: string = syscall,
): number {
  if (result < 0) throw new SyscallError(syscall, -result, "", action);
  return result;
}

const encoder = new TextEncoder();

function cString(text: string): Bytes {
  return encoder.encode(text + "\0");
}

/** socket(2). Returns a descriptor. */
export function socket(domain: number, type: number, protocol: number): number {
  return checked(
    "socket",
    () => libc().symbols.socket(domain, type, protocol, PADDING),
  );
}

/** setsockopt(2) with a 32-bit integer value. */
export function setSocketOption(
  fd: number,
  option: { level: number; name: number; value: number },
): void {
  setSocketOptionBytes(fd, {
    ...option,
    value: new Uint8Array(new Int32Array([option.value]).buffer),
  });
}

/** setsockopt(2) with a value of any layout. */
export function setSocketOptionBytes(
  fd: number,
  { level, name, value }: { level: number; name: number; value: Bytes },
): void {
  const { symbols } = libc();
  checked(
    "setsockopt",
    () => symbols.setsockopt(fd, level, name, value, value.length, PADDING),
  );
}

/** connect(2). The address is a `struct sockaddr` of the socket's family. */
export function connect(fd: number, address: Bytes): void {
  const { symbols } = libc();
  checked(
    "connect",
    () => symbols.connect(fd, address, address.length, PADDING),
  );
}

/** send(2) to the socket's peer. Returns the bytes sent. */
export function send(fd: number, message: Bytes, flags: number): number {
  const { symbols } = libc();
  const result = attemptOnSocket(
    flags,
    (flags) => symbols.send(fd, message, message.length, flags, PADDING),
  );
  return unlessFailed("send", result);
}

/** recv(2). Returns the bytes received; more than the buffer holds with MSG_TRUNC. */
export function recv(fd: number, buffer: Bytes, flags: number): number {
  const { symbols } = libc();
  const result = attemptOnSocket(
    flags,
    (flags) => symbols.recv(fd, buffer, buffer.length, flags, PADDING),
  );
  return unlessFailed("recv", result);
}

let threaded:
  | Deno.DynamicLibrary<typeof THREADED_SYMBOLS>["symbols"]
  | undefined;

function threadedCalls(): NonNullable<typeof threaded> {
  return threaded ??= Deno.dlopen("libc.so.6", THREADED_SYMBOLS).symbols;
}

/** What other threads read and write: V8 frees memory that nothing here holds. */
const lent = new Set<Bytes>();

/** Holds memory until a call on another thread has returned. */
function lend<T>(memory: Bytes, call: PromiseLike<T>): PromiseLike<T> {
  lent.add(memory);
  const giveBack = (): boolean => lent.delete(memory);
  call.then(giveBack, giveBack);
  return call;
}

/**
 * send(2) on another thread, for messages that the kernel takes long to handle.
 *
 * @param message Must not change meanwhile
 * @returns Negative if it was not sent; errno is not available
 */
export function sendInBackground(
  fd: number,
  message: Bytes,
): PromiseLike<number> {
  const { send } = threadedCalls();
  return lend(message, send(fd, message, message.length, 0));
}

/** Source: include/uapi/asm-generic/poll.h. */
const POLLIN = 1;

/** poll(2) on another thread: waits until something can be received. */
export function waitReadable(
  fd: number,
  timeoutMs: number,
): PromiseLike<number> {
  const request = new Uint8Array(new Int32Array([fd, POLLIN]).buffer);
  return lend(request, threadedCalls().poll(request, 1n, timeoutMs));
}

/**
 * open(2). Returns a descriptor.
 *
 * @param action The beginning of the error's message; "open" by default
 * @param mode Of a file that is created
 */
export function open(
  path: string,
  flags: number,
  action?: string,
  mode = 0,
): number {
  const { symbols } = libc(), bytes = cString(path);
  return checked(
    "open",
    () => symbols.open(bytes, flags, mode, PADDING),
    action,
  );
}

/** close(2). */
export function close(fd: number): void {
  const { symbols, errno } = libc();
  if (symbols.close(fd, PADDING) >= 0) return;
  // Not made again: the number may be another file's by then. The kernel never
  // answers with EAGAIN, and files other than those of disks have one error only.
  const [number = 0] = errno;
  throw new SyscallError("close", number === EAGAIN ? EBADF : number);
}

let locks: Deno.DynamicLibrary<typeof LOCK_SYMBOLS>["symbols"] | undefined;

/** Source: include/uapi/asm-generic/fcntl.h. */
const LOCK_EX = 2, LOCK_NB = 4;

function lockCalls(): NonNullable<typeof locks> {
  return locks ??= Deno.dlopen("libc.so.6", LOCK_SYMBOLS).symbols;
}

/** flock(2), exclusive and without waiting. Returns whether it has the lock. */
export function tryLock(fd: number): boolean {
  libc(); // finds errno
  const symbols = lockCalls();
  const call = (): number => symbols.flock(fd, LOCK_EX | LOCK_NB, PADDING);
  return unlessBusy("flock", call) !== undefined;
}

/** Source: include/uapi/asm-generic/fcntl.h. */
const F_SETFD = 2, F_SETFL = 4, FD_CLOEXEC = 1, O_NONBLOCK = 0o4000;

/** fcntl(2): sets whether programs that are executed lose a descriptor. */
export function setCloseOnExec(fd: number, isOn: boolean): void {
  libc(); // finds errno
  const flags = isOn ? FD_CLOEXEC : 0;
  checked("fcntl", () => lockCalls().fcntl(fd, F_SETFD, flags, PADDING));
}

/** fcntl(2): makes calls for a descriptor return instead of waiting. */
export function setNonBlocking(fd: number): void {
  libc(); // finds errno
  checked("fcntl", () => lockCalls().fcntl(fd, F_SETFL, O_NONBLOCK, PADDING));
}

/** setns(2): moves this thread into the namespace that `fd` refers to. */
export function setns(fd: number, type: number): void {
  checked("setns", () => libc().symbols.setns(fd, type, PADDING));
}

/** unshare(2): moves this thread into new namespaces. */
export function unshare(flags: number): void {
  checked("unshare", () => namespaceCalls().unshare(flags, PADDING));
}

/** Makes a directory this thread's root directory: fchdir(2), then chroot(2). */
export function chroot(fd: number): void {
  const symbols = namespaceCalls();
  checked("fchdir", () => symbols.fchdir(fd, PADDING));
  checked("chroot", () => symbols.chroot(cString("."), PADDING));
}

/** mount(2) of `source` at `target`, without a file system type or data. */
export function mount(source: string, target: string, flags: number): void {
  const [from, to] = [cString(source), cString(target)];
  const symbols = namespaceCalls();
  checked(
    "mount",
    () => symbols.mount(from, to, null, BigInt(flags), null, PADDING),
  );
}

/**
 * mount(2) of a new file system of a type that needs no source, such as `sysfs`.
 *
 * @param data Options of the type, such as `lowerdir=/etc,...`
 */
export function mountNew(
  type: string,
  target: string,
  flags: number,
  data?: string,
): void {
  const [kind, to] = [cString(type), cString(target)];
  const options = data === undefined ? null : cString(data);
  const symbols = namespaceCalls();
  checked(
    "mount",
    () => symbols.mount(kind, to, kind, BigInt(flags), options, PADDING),
  );
}

/** umount2(2). */
export function umount(target: string, flags: number): void {
  const bytes = cString(target);
  checked("umount2", () => namespaceCalls().umount2(bytes, flags, PADDING));
}

/** Source: include/uapi/linux/nsfs.h, `NS_GET_NSTYPE`. */
const NS_GET_NSTYPE = 0xb703n;

/**
 * ioctl_ns(2): returns the type of the namespace that a descriptor refers to.
 *
 * @returns Its CLONE_NEW* flag
 * @throws {SyscallError} ENOTTY if the descriptor is not a namespace
 */
export function namespaceType(fd: number): number {
  const symbols = namespaceCalls();
  return checked("ioctl", () => symbols.ioctl(fd, NS_GET_NSTYPE, PADDING));
}

/** Source: include/uapi/asm-generic/ioctls.h. */
const FIOCLEX = 0x5451n;

/** ioctl(2): closes a descriptor in the programs that this process starts. */
export function closeOnExec(fd: number): void {
  checked("ioctl", () => namespaceCalls().ioctl(fd, FIOCLEX, PADDING));
}

let devices: Deno.DynamicLibrary<typeof DEVICE_SYMBOLS>["symbols"] | undefined;

function deviceCalls(): NonNullable<typeof devices> {
  libc(); // finds errno
  return devices ??= Deno.dlopen("libc.so.6", DEVICE_SYMBOLS).symbols;
}

/** ioctl(2) with a structure, which it may change. */
export function controlWithBytes(fd: number, code: bigint, value: Bytes): void {
  const symbols = deviceCalls();
  checked("ioctl", () => symbols.withBytes(fd, code, value, PADDING));
}

/** ioctl(2) with a number. */
export function controlWithNumber(
  fd: number,
  code: bigint,
  value: number,
): void {
  const symbols = deviceCalls();
  checked("ioctl", () => symbols.withNumber(fd, code, BigInt(value), PADDING));
}

/** The arguments of {@linkcode execvpe}. */
export interface Exec {
  /** The program. A name without a slash is looked up in PATH. */
  readonly file: string;
  /** All arguments, the program's own name first. */
  readonly argv: readonly string[];
  /** The environment: NUL-terminated `NAME=value` entries. */
  readonly env: readonly Bytes[];
  /** The soft limit of open files. */
  readonly openFiles?: OpenFileLimit | undefined;
}

/** RLIMIT_NOFILE. */
export interface OpenFileLimit {
  readonly soft: bigint;
  readonly hard: bigint;
}

/** Source: include/uapi/asm-generic/signal.h, resource.h. */
const SIGPIPE = 13, SIG_DFL = 0n, RLIMIT_NOFILE = 7;

/**
 * execvpe(3): replaces this program with another one, in this thread's
 * namespaces. Never returns; throws on failure.
 *
 * Resets SIGPIPE first: Deno ignores it, and the program would inherit that.
 *
 * @throws {SyscallError} ENOENT, EACCES, ... from execve(2)
 */
export function execvpe({ file, argv, env, openFiles }: Exec): never {
  libc(); // finds errno
  const { symbols } = Deno.dlopen("libc.so.6", EXEC_SYMBOLS);
  const [args, variables] = [layOut(argv.map(cString)), layOut(env)];
  symbols.signal(SIGPIPE, SIG_DFL);
  if (openFiles !== undefined) {
    const { soft, hard } = openFiles;
    const limit = new Uint8Array(new BigUint64Array([soft, hard]).buffer);
    symbols.setrlimit(RLIMIT_NOFILE, limit); // a refusal changes nothing
  }
  checked("execvpe", () => symbols.execvpe(cString(file), args, variables));
  throw new Error(`Cannot go on as "${file}": execvpe came back`);
}

/**
 * Lays out strings for C: pointers, NULL, then the strings. They share one
 * block of memory that is too large for V8 to move.
 *
 * @param texts NUL-terminated
 */
export function layOut(texts: readonly Bytes[]): Bytes {
  const headBytes = 8 * (texts.length + 1);
  const textBytes = texts.reduce((sum, text) => sum + text.length, 0);
  const memory = new Uint8Array(Math.max(headBytes + textBytes, 1024));
  const head = new BigUint64Array(memory.buffer, 0, texts.length + 1);
  const base = Deno.UnsafePointer.value(Deno.UnsafePointer.of(memory));
  let offset = headBytes;
  texts.forEach((text, index) => {
    memory.set(text, offset);
    head[index] = base + BigInt(offset);
    offset += text.length;
  });
  return memory;
}

let server: Deno.DynamicLibrary<typeof SERVER_SYMBOLS>["symbols"] | undefined;

function serverCalls(): NonNullable<typeof server> {
  libc(); // finds errno
  return server ??= Deno.dlopen("libc.so.6", SERVER_SYMBOLS).symbols;
}

/** bind(2). The address is a `struct sockaddr` of the socket's family. */
export function bind(fd: number, address: Bytes): void {
  const symbols = serverCalls();
  checked("bind", () => symbols.bind(fd, address, address.length, PADDING));
}

/** listen(2). */
export function listen(fd: number, backlog: number): void {
  checked("listen", () => serverCalls().listen(fd, backlog, PADDING));
}

/**
 * accept4(2) of a non-blocking socket.
 *
 * @returns A descriptor; undefined if no connection waits
 */
export function accept(fd: number, flags: number): number | undefined {
  const symbols = serverCalls();
  return unlessBusy(
    "accept4",
    () => symbols.accept4(fd, null, null, flags, PADDING),
  );
}

/** recv(2) of a non-blocking socket; undefined before data comes. */
export function recvNow(fd: number, buffer: Bytes): number | undefined {
  const { symbols } = libc();
  return unlessBusy(
    "recv",
    () => symbols.recv(fd, buffer, buffer.length, 0, PADDING),
  );
}

/** Source: include/linux/socket.h. */
const MSG_DONTWAIT = 0x40, MSG_NOSIGNAL = 0x4000;

/** send(2) to a non-blocking socket; undefined if its buffer is full. */
export function sendNow(fd: number, bytes: Bytes): number | undefined {
  const { symbols } = libc();
  return unlessBusy(
    "send",
    () => symbols.send(fd, bytes, bytes.length, MSG_NOSIGNAL, PADDING),
  );
}

let messages:
  | Deno.DynamicLibrary<typeof MESSAGE_SYMBOLS>["symbols"]
  | undefined;

/**
 * recvmsg(2) without waiting.
 *
 * @param header A `struct msghdr`, which points to memory that the caller keeps
 * @returns The bytes received; undefined before data comes
 */
export function receiveMessage(fd: number, header: Bytes): number | undefined {
  libc(); // finds errno
  const symbols = messages ??=
    Deno.dlopen("libc.so.6", MESSAGE_SYMBOLS).symbols;
  return unlessBusy(
    "recvmsg",
    () => symbols.recvmsg(fd, header, MSG_DONTWAIT, PADDING),
  );
}

function unlessBusy(syscall: string, call: () => number): number | undefined {
  const result = attempt(call);
  return result === -EAGAIN ? undefined : unlessFailed(syscall, result);
}

/** getsockopt(2). Fills `value`. */
export function getSocketOption(
  fd: number,
  { level, name, value }: { level: number; name: number; value: Bytes },
): void {
  const symbols = serverCalls();
  const length = new Uint8Array(new Uint32Array([value.length]).buffer);
  checked(
    "getsockopt",
    () => symbols.getsockopt(fd, level, name, value, length, PADDING),
  );
}

/** poll(2), without waiting. Returns whether something can be received. */
export function isReadable(fd: number): boolean {
  const request = new Uint8Array(new Int32Array([fd, POLLIN]).buffer);
  const symbols = serverCalls();
  for (;;) {
    const count = attempt(() => symbols.poll(request, 1n, 0, PADDING));
    // A signal interrupted it, such as SIGCHLD.
    if (count !== -EINTR) return unlessFailed("poll", count) > 0;
  }
}

/** shutdown(2). */
export function shutdown(fd: number, how: number): void {
  checked("shutdown", () => serverCalls().shutdown(fd, how, PADDING));
}

/** epoll_create1(2). Returns a descriptor. */
export function createEpoll(flags: number): number {
  return checked(
    "epoll_create1",
    () => serverCalls().epoll_create1(flags, PADDING),
  );
}

/** epoll_ctl(2). The event is a `struct epoll_event`. */
export function controlEpoll(
  epoll: number,
  operation: number,
  { fd, event }: { fd: number; event: Bytes },
): void {
  const symbols = serverCalls();
  checked(
    "epoll_ctl",
    () => symbols.epoll_ctl(epoll, operation, fd, event, PADDING),
  );
}

/** Gives memory back that the C library keeps for later, malloc_trim(3). It takes some ms. */
export function trimMemory(): void {
  memory ??= Deno.dlopen("libc.so.6", MEMORY_SYMBOLS).symbols;
  memory.malloc_trim(0n, PADDING);
}

let memory:
  | Deno.DynamicLibrary<typeof MEMORY_SYMBOLS>["symbols"]
  | undefined;

let disks: Deno.DynamicLibrary<typeof DISK_SYMBOLS>["symbols"] | undefined;

/** statfs(2). Fills `value`, a `struct statfs`. */
export function statFileSystem(path: string, value: Bytes): void {
  checked("statfs", () => diskLibc().statfs(cString(path), value, PADDING));
}

/** access(2). */
export function checkAccess(path: string, mode: number): void {
  checked("access", () => diskLibc().access(cString(path), mode, PADDING));
}

function diskLibc(): NonNullable<typeof disks> {
  libc(); // finds errno
  return disks ??= Deno.dlopen("libc.so.6", DISK_SYMBOLS).symbols;
}
