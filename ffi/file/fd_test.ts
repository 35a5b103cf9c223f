import { assertEquals, assertThrows } from "@std/assert";
import { SyscallError } from "../errno.ts";
import { Fd } from "./fd.ts";
import * as libc from "../libc.ts";

/** Source: include/uapi/asm-generic/fcntl.h. */
const O_RDONLY = 0, O_CLOEXEC = 0o2000000;

function openNull(): Fd {
  return new Fd(libc.open("/dev/null", O_RDONLY | O_CLOEXEC));
}

/** Returns the path behind a descriptor of this process. */
function targetOf(fd: number): string | undefined {
  try {
    return Deno.readLinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined;
  }
}

Deno.test("Fd closes its descriptor when it is disposed of", () => {
  let number: number;
  {
    using fd = openNull();
    number = fd.number;
    assertEquals(targetOf(number), "/dev/null");
  }
  assertEquals(targetOf(number), undefined);
});

Deno.test("Fd closes only once: the number may be another's by then", () => {
  const fd = openNull();
  const { number } = fd;
  fd[Symbol.dispose]();
  using other = openNull();
  // The kernel assigns the lowest free number.
  assertEquals(other.number, number);
  fd[Symbol.dispose]();
  assertEquals(targetOf(number), "/dev/null");
});

Deno.test("Fd.number throws after disposal", () => {
  const fd = openNull();
  fd[Symbol.dispose]();
  assertThrows(() => fd.number, Error, "Cannot use a closed descriptor");
});

Deno.test("Fd tells when another has closed its descriptor", () => {
  const fd = openNull();
  libc.close(fd.number);
  const error = assertThrows(() => fd[Symbol.dispose](), SyscallError);
  assertEquals(error.message, "close: EBADF");
});
