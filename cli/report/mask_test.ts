import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { maskSecrets } from "./mask.ts";

testRows("maskSecrets() hides values of secrets, and nothing else", [
  ['{"token":"abc","name":"x"}', '{"token":"***","name":"x"}'],
  ['"Password": "a\\"b", "b": 1', '"Password": "***", "b": 1'],
  ["    token: abc.def\n    name: x", '    token: "***"\n    name: x'],
  ["client-key-data: TUlJ", 'client-key-data: "***"'],
  ["certificate-authority-data: TUlJ", 'certificate-authority-data: "***"'],
  ["tokenFile: /var/run/token", "tokenFile: /var/run/token"],
  ['"secret":"","token":null', '"secret":"","token":null'],
  ['"secrets": {"a": 1}', '"secrets": {"a": 1}'],
  ['"secrets": ["a"]', '"secrets": ["a"]'],
  ["level=warn token=abc msg=x", 'level=warn token="***" msg=x'],
  ["Authorization: Bearer abc.d-e_f", "Authorization: Bearer ***"],
  ["x eyJhbGciOi.eyJpc3MiOi.c2ln y", "x *** y"],
  ["https://me:pass@host/path", "https://***@host/path"],
  ["https://[fd00::1]:6443/", "https://[fd00::1]:6443/"],
  [
    "a\n-----BEGIN EC PRIVATE KEY-----\nMIGk\n-----END EC PRIVATE KEY-----\nb",
    "a\n***\nb",
  ],
  ["default via 10.0.0.1 dev eth0", "default via 10.0.0.1 dev eth0"],
  ['"mac": "02:00:5e:00:53:01"', '"mac": "02:00:5e:00:53:01"'],
], ([text, want]: [string, string]) => assertEquals(maskSecrets(text), want));
