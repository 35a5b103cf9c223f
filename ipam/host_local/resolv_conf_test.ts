import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../base/error.ts";
import { type Dns, emptyDns } from "../../cni/result/result.ts";
import { parseResolvConf, readResolvConf } from "./resolv_conf.ts";
import { testRows } from "../../tests/_harness/table.ts";

testRows("parseResolvConf() reads what resolv.conf(5) describes", [
  ["nothing", [""], {}],
  ["keywords without a value", ["nameserver", "search", "domain "], {}],
  ["unknown keywords", ["sortlist 10.0.0.0", "Nameserver 1.2.3.4"], {}],
  [
    "blanks of all kinds",
    ["\tnameserver \t 1.2.3.4  ", "search\ta.test\tb.test\r"],
    { nameservers: ["1.2.3.4"], search: ["a.test", "b.test"] },
  ],
  [
    "what follows a value, as the Go plugin reads it",
    ["nameserver 1.2.3.4 # mine", "options ndots:5 # why"],
    { nameservers: ["1.2.3.4"], options: ["ndots:5", "#", "why"] },
  ],
], ([, lines, want]: [string, string[], Partial<Dns>]) => {
  const text = lines.join("\n");
  assertEquals(parseResolvConf(text), { ...emptyDns(), ...want });
  assertEquals(parseResolvConf(`${text}\n`), { ...emptyDns(), ...want });
});

Deno.test("readResolvConf() names a file that cannot be read", () => {
  const error = assertThrows(() => readResolvConf("/no/such/file"), CniError);
  assertEquals(error.message, 'Cannot read "/no/such/file"');
  assertEquals(error.code, ErrorCode.IoFailure);
});
