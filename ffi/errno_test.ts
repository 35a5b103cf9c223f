import { assertEquals } from "@std/assert";
import { errnoName, isErrno, SyscallError } from "./errno.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

// The whole table was compared with glibc's strerrorname_np().
testRows(
  "errnoName() names errors as the kernel's headers do",
  [
    [1, "EPERM"],
    [2, "ENOENT"],
    [11, "EAGAIN"],
    [17, "EEXIST"],
    [19, "ENODEV"],
    [22, "EINVAL"],
    [34, "ERANGE"],
    [40, "ELOOP"],
    [42, "ENOMSG"],
    [57, "EBADSLT"],
    [59, "EBFONT"],
    [85, "ERESTART"],
    [95, "EOPNOTSUPP"],
    [101, "ENETUNREACH"],
    [105, "ENOBUFS"],
    [116, "ESTALE"],
    [122, "EDQUOT"],
    [133, "EHWPOISON"],
  ],
  ([errno, name]: [number, string]) => assertEquals(errnoName(errno), name),
  ([, name]) => name,
);

testRows("errnoName() returns the number of an unnamed error", [
  0,
  41,
  58,
  134,
  524,
  -1,
  1.5,
], (errno) => {
  assertEquals(errnoName(errno), `errno ${errno}`);
}, (errno) => String(errno));

Deno.test("errnoName() knows each name once", () => {
  const names = Array.from({ length: 133 }, (_, i) => errnoName(i + 1));
  assertEquals(new Set(names).size, names.length);
});

Deno.test("SyscallError tells the call, the number's name and the explanation", () => {
  const plain = new SyscallError("setns", 1);
  assertEquals(String(plain), "SyscallError: setns: EPERM");
  assertEquals([plain.syscall, plain.errno], ["setns", "EPERM"]);
  const explained = new SyscallError("mount", 524, "told so");
  assertEquals(explained.message, "mount: errno 524: told so");
});

Deno.test("isErrno() matches errors of the system by name", async (t) => {
  const missing = new SyscallError("open", 2);
  const rows: [name: string, error: unknown, names: string[], boolean][] = [
    ["the name", missing, ["ENOENT"], true],
    ["one of several", missing, ["ESRCH", "ENOENT"], true],
    ["another name", missing, ["ESRCH"], false],
    ["no names", missing, [], false],
    ["another class of error", new Error("open: ENOENT"), ["ENOENT"], false],
    ["no error", { errno: "ENOENT" }, ["ENOENT"], false],
    ["undefined", undefined, ["ENOENT"], false],
  ];
  await eachRow(
    t,
    rows,
    ([, error, names, expected]) =>
      assertEquals(isErrno(error, ...names), expected),
  );
});
