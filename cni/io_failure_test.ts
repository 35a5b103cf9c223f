import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "./error.ts";
import { withIoFailure } from "./io_failure.ts";

Deno.test("withIoFailure() tells what was done, with code 5", () => {
  assertEquals(withIoFailure("read", () => 7), 7);
  const error = assertThrows(
    () => withIoFailure('read "/x"', () => Deno.readTextFileSync("/no/such")),
    CniError,
  );
  assertEquals(error.code, ErrorCode.IoFailure);
  assertEquals(error.message, 'Cannot read "/x"');
});
