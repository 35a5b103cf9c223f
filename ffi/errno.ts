/**
 * Names of Linux error numbers, and the error thrown by failed system calls.
 *
 * @module
 */

/**
 * Names of the error numbers, in order; "" where Linux has none.
 *
 * Source: include/uapi/asm-generic/errno-base.h and errno.h (x86-64 and arm64 alike).
 */
const NAMES =
  (",EPERM,ENOENT,ESRCH,EINTR,EIO,ENXIO,E2BIG,ENOEXEC,EBADF,ECHILD,EAGAIN,ENOMEM,EACCES,EFAULT,ENOTBLK," +
    "EBUSY,EEXIST,EXDEV,ENODEV,ENOTDIR,EISDIR,EINVAL,ENFILE,EMFILE,ENOTTY,ETXTBSY,EFBIG,ENOSPC,ESPIPE,EROFS,EMLINK," +
    "EPIPE,EDOM,ERANGE,EDEADLK,ENAMETOOLONG,ENOLCK,ENOSYS,ENOTEMPTY,ELOOP,,ENOMSG,EIDRM,ECHRNG,EL2NSYNC,EL3HLT," +
    "EL3RST,ELNRNG,EUNATCH,ENOCSI,EL2HLT,EBADE,EBADR,EXFULL,ENOANO,EBADRQC,EBADSLT,,EBFONT,ENOSTR,ENODATA,ETIME," +
    "ENOSR,ENONET,ENOPKG,EREMOTE,ENOLINK,EADV,ESRMNT,ECOMM,EPROTO,EMULTIHOP,EDOTDOT,EBADMSG,EOVERFLOW,ENOTUNIQ," +
    "EBADFD,EREMCHG,ELIBACC,ELIBBAD,ELIBSCN,ELIBMAX,ELIBEXEC,EILSEQ,ERESTART,ESTRPIPE,EUSERS,ENOTSOCK," +
    "EDESTADDRREQ,EMSGSIZE,EPROTOTYPE,ENOPROTOOPT,EPROTONOSUPPORT,ESOCKTNOSUPPORT,EOPNOTSUPP,EPFNOSUPPORT," +
    "EAFNOSUPPORT,EADDRINUSE,EADDRNOTAVAIL,ENETDOWN,ENETUNREACH,ENETRESET,ECONNABORTED,ECONNRESET,ENOBUFS,EISCONN," +
    "ENOTCONN,ESHUTDOWN,ETOOMANYREFS,ETIMEDOUT,ECONNREFUSED,EHOSTDOWN,EHOSTUNREACH,EALREADY,EINPROGRESS,ESTALE," +
    "EUCLEAN,ENOTNAM,ENAVAIL,EISNAM,EREMOTEIO,EDQUOT,ENOMEDIUM,EMEDIUMTYPE,ECANCELED,ENOKEY,EKEYEXPIRED,EKEYREVOKED," +
    "EKEYREJECTED,EOWNERDEAD,ENOTRECOVERABLE,ERFKILL,EHWPOISON").split(",");

/** Returns the name of a positive error number, or `errno N` if it has no name. */
export function errnoName(errno: number): string {
  return NAMES[errno] || `errno ${errno}`;
}

/**
 * A failed system call.
 *
 * Match on {@linkcode SyscallError.errno}, never on the message.
 */
export class SyscallError extends Error {
  /** The class's name in messages. */
  override readonly name: string = "SyscallError";
  /** The call or request that failed, such as `setns` or `RTM_NEWLINK`. */
  readonly syscall: string;
  /** The error's name, such as `ENODEV`. */
  readonly errno: string;
  /** The error's number, positive. */
  readonly number: number;

  /**
   * Creates an error from its number.
   *
   * @param syscall Name of the call
   * @param errno Positive error number
   * @param explanation The kernel's text, if it sent one
   * @param action The beginning of the message; the call's name by default
   */
  constructor(
    syscall: string,
    errno: number,
    explanation = "",
    action: string = syscall,
  ) {
    const name = errnoName(errno);
    super([action, name, explanation].filter((text) => text !== "").join(": "));
    this.syscall = syscall;
    this.errno = name;
    this.number = errno;
  }
}

/**
 * Reports whether `error` is a failed system call, including one that Deno made.
 * Other errors are bugs.
 */
export function isSystemError(error: unknown): boolean {
  return error instanceof SyscallError ||
    error instanceof Error && typeof Reflect.get(error, "code") === "string";
}

/** Reports whether `error` is a failed system call with one of these error names. */
export function isErrno(error: unknown, ...names: string[]): boolean {
  return error instanceof SyscallError && names.includes(error.errno);
}
