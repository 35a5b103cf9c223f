import { assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { checkOnePerFamily } from "./one_per_family.ts";

Deno.test("checkOnePerFamily() refuses what a result has no room for", () => {
  checkOnePerFamily([], "0.2.0");
  checkOnePerFamily([4, 6], "0.1.0");
  checkOnePerFamily([4, 4, 6, 6], "0.3.0");
  assertThrows(
    () => checkOnePerFamily([4, 6, 4], "0.2.0"),
    CniError,
    "CNI version 0.2.0 does not support more than 1 address per family",
  );
});
