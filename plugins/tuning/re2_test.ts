import { assertEquals, assertThrows } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { compileRe2 } from "./re2.ts";

testRows("compileRe2() matches as Go's regexp does", [
  [String.raw`^net\.ipv4\.(tcp_.*|ip_forward)$`, ["net.ipv4.tcp_x"], [
    "net.ipv4.ip_forward4",
    "net4ipv4.ip_forward",
  ]],
  ["net/ipv4", ["a/net/ipv4/b"], ["net.ipv4"]],
  ["(?i)TCP|udp", ["tcp", "UDP"], ["icmp"]],
  ["a(?i)b|c", ["aB", "C"], ["AB"]],
  ["(a(?i)b)c", ["aBc"], ["aBC"]],
  ["(?i:ab)c", ["ABc"], ["ABC"]],
  ["(?-i:a)", ["a"], ["A"]],
  ["^(?P<x>a)(?<y>b)(?:c)$", ["abc"], ["ab"]],
  [String.raw`^\Qa.b\E$`, ["a.b"], ["axb"]],
  [String.raw`^[[:alpha:]_\-]+\z`, ["a-_b"], ["a1"]],
  ["^[[:^digit:]]+$", ["ab"], ["a1"]],
  ["^[]a-c-]+$", ["]-b"], ["d"]],
  ["^[^]a]+$", ["b"], ["]"]],
  [String.raw`^[\w-.]+$`, ["net-a.b"], ["a/b"]],
  [String.raw`\A[\d\.]+$`, ["1.2"], ["a1.2"]],
  [String.raw`^\S+\s\D$`, ["ab c"], ["ab 1"]],
  [String.raw`^\x41\x{42}\t$`, ["AB\t"], ["ab"]],
  [String.raw`^\pL\p{Greek}\P{L}\p{^L}$`, ["aα12"], ["1αbb"]],
  [String.raw`\/\_\-\#`, ["/_-#"], ["x"]],
  ["^a{2,3}{$", ["aaa{"], ["a{"]],
  ["^}]&&--$", ["}]&&--"], ["}"]],
  ["", ["anything", ""], []],
] as [string, string[], string[]][], ([pattern, matching, others]) => {
  const compiled = compileRe2(pattern);
  for (const text of matching) assertEquals(compiled.test(text), true, text);
  for (const text of others) assertEquals(compiled.test(text), false, text);
}, ([pattern]) => pattern || "empty");

testRows("compileRe2() refuses the same expressions as Go", [
  "(?=a)",
  "(?!a)",
  "(?<=a)",
  "(?<!a)",
  "(a",
  "a)",
  "[abc",
  "[z-a]",
  "[[:none:]]",
  String.raw`(a)\1`,
  String.raw`\k<a>`,
  String.raw`\y`,
  String.raw`\pX`,
  "\\",
  "*a",
  "a**",
  "(?P<n",
  "(?z)a",
], (pattern) => {
  assertThrows(() => compileRe2(pattern), SyntaxError);
});
