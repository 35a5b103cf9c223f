import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { parseYaml } from "./yaml.ts";
import { testRows } from "../tests/_harness/table.ts";

testRows<[string, unknown]>("parseYaml() reads what people write", [
  ["a: b\nc:\n- 1\n", { a: "b", c: [1] }],
  ["# nothing\n", null],
  ["a: 2026-01-02\nb: yes\nc: ~\n", { a: "2026-01-02", b: "yes", c: null }],
  ["a: 1\na: 2\n", { a: 2 }],
  ["x: &x {a: 1}\ny: *x\n", { x: { a: 1 }, y: { a: 1 } }],
  ["a: |\n  x\n  y\n", { a: "x\ny\n" }],
], ([text, value]) => {
  assertEquals(parseYaml(text, "x"), value);
}, ([text]) => JSON.stringify(text));

testRows("parseYaml() reports the position of a problem without the content", [
  "token: secret\n  b: secret\n",
  "token: *secret\n",
  "token: !secret x\n",
  'token: "secret\n',
  "secret: [\n",
  "token: secret\n---\ntoken: secret\n",
  "token: @secret\n",
], (text) => {
  const error = assertThrows(
    () => parseYaml(text, 'kubeconfig "/k"'),
    CniError,
  );
  assertEquals(error.code, 7);
  assert(
    /^Cannot parse kubeconfig "\/k": [^"]+ at line \d+, column \d+$/.test(
      error.message,
    ),
    error.message,
  );
  assert(!error.toString().includes("secret"), error.toString());
}, (text) => JSON.stringify(text));
