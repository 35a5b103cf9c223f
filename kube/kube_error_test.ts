import { assertEquals } from "@std/assert";
import {
  hasStatus,
  isConflict,
  isForbidden,
  isNotFound,
  KubeError,
  kubeErrorCode,
  type KubeFailure,
} from "./kube_error.ts";
import { testRows } from "../tests/_harness/table.ts";

testRows("kubeErrorCode() distinguishes temporary from permanent failures", [
  [{ status: 0 }, 11],
  [{ status: 0, isTimeout: true }, 11],
  [{ status: 0, isUntrusted: true }, 7],
  [{ status: 409, reason: "UidMismatch" }, 4],
  ...[408, 409, 429, 500, 502, 503, 504].map((status) =>
    [{ status }, 11] as const
  ),
  ...[200, 302, 400, 401, 403, 404, 405, 410, 415, 422].map((status) =>
    [{ status }, 7] as const
  ),
], ([failure, code]: readonly [KubeFailure, number]) => {
  assertEquals(kubeErrorCode(new KubeError("x", failure)), code);
}, ([failure]) => JSON.stringify(failure));

testRows(
  "isNotFound(), isForbidden() and isConflict() compare the status",
  [[isNotFound, 404], [isForbidden, 403], [isConflict, 409]] as const,
  ([is, status]) => {
    assertEquals(is(new KubeError("x", { status })), true);
    assertEquals(is(new KubeError("x", { status: 400 })), false);
    assertEquals(is(Object.assign(new Error("x"), { status })), false);
    assertEquals(is(undefined), false);
  },
  ([is]) => is.name,
);

Deno.test("hasStatus() accepts several statuses", () => {
  const error = new KubeError("x", { status: 415 });
  assertEquals(hasStatus(error, 405, 415), true);
  assertEquals(hasStatus(error, 405), false);
  assertEquals(
    hasStatus(Object.assign(new Error("x"), { status: 405 }), 405),
    false,
  );
});

Deno.test("KubeError has no cause property without a cause", () => {
  assertEquals("cause" in new KubeError("x", { status: 0 }), false);
  const cause = new Error("y");
  assertEquals(new KubeError("x", { status: 0, cause }).cause, cause);
});
