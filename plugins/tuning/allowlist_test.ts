import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { checkAgainst } from "./allowlist.ts";
import { compileRe2 } from "./re2.ts";

testRows("checkAgainst() needs a line that matches each name", [
  ["one line", "^net\\.a$", ["net.a"], ""],
  ["any line", "\n  net.b \r\n\t^net\\.a$\n\n", ["net.a", "net.b"], ""],
  ["anywhere in the name", "a", ["net.a.b"], ""],
  ["a bad line after a match", "net\n[a", ["net.a"], ""],
  [
    "no line",
    "^a\n b$ ",
    ["net.b", "net.a"],
    "Sysctl net.a is not allowed. Only the following sysctls are allowed: [^a b$]",
  ],
  [
    "an empty list",
    "\n",
    ["net.a"],
    "Sysctl net.a is not allowed. Only the following sysctls are allowed: []",
  ],
  [
    "a bad line before a match",
    "[a\nnet",
    ["net.a"],
    'Cannot parse regular expression "[a" in "/etc/cni/tuning/allowlist.conf"',
  ],
] as [string, string, string[], string][], ([, text, names, refusal]) => {
  const check = (): void => checkAgainst(text, names, compileRe2);
  if (refusal === "") return check();
  const { code, message } = assertThrows(check, CniError);
  assertEquals([code, message], [7, refusal]);
});
