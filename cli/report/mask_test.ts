import { assert, assertEquals } from "@std/assert";
import { SECRET_KEYS } from "../../plugins/lists/key_tables.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { Collection } from "./collect.ts";
import { formatMasked, maskKeys, maskSecrets } from "./mask.ts";

testRows("maskSecrets() masks the values of secrets only", [
  ['{"token":"abc","name":"x"}', '{"token":"***","name":"x"}'],
  ['"Password": "a\\"b", "b": 1', '"Password": "***", "b": 1'],
  ["    token: abc.def\n    name: x", '    token: "***"\n    name: x'],
  ["client-key-data: TUlJ", 'client-key-data: "***"'],
  ["certificate-authority-data: TUlJ", 'certificate-authority-data: "***"'],
  ["tokenFile: /var/run/token", "tokenFile: /var/run/token"],
  ['"secret":"","token":null', '"secret":"","token":null'],
  ['"secrets": {"a": 1}', '"secrets": "***"'],
  ['"secrets": ["a"]', '"secrets": "***"'],
  ['"secrets": [], "tokens": {}', '"secrets": [], "tokens": {}'],
  ["password: two words, more", 'password: "***"'],
  ["password: a b\nname: x", 'password: "***"\nname: x'],
  ["- token: |\n    abc\n    def\n  name: x", '- token: "***"\n  name: x'],
  ["tokens:\n- abc\nname: x", 'tokens: "***"\nname: x'],
  ["token:\nname: x", "token:\nname: x"],
  ["client-key-data: /9jabc", 'client-key-data: "***"'],
  ["- name: MY_TOKEN\n  value: abc", '- name: MY_TOKEN\n  value: "***"'],
  ['{"name":"TOKEN","value":"abc"}', '{"name":"TOKEN","value":"***"}'],
  ['["--token", "abc", "-x"]', '["--token", "***", "-x"]'],
  ['["-x","--token","abc"]', '["-x","--token","***"]'],
  ['"Cookie":"sid=abc"', '"Cookie":"***"'],
  ["Set-Cookie: a=b; c", 'Set-Cookie: "***"'],
  ["net.ipv4.tcp_syncookies = 1", "net.ipv4.tcp_syncookies = 1"],
  ["run --password abc --verbose", "run --password *** --verbose"],
  ['"{\\"token\\":\\"abc\\"}"', '"{\\"token\\":\\"***\\"}"'],
  [
    '"PGPASS":"abc","pass":"d","psk":"e"',
    '"PGPASS":"***","pass":"***","psk":"***"',
  ],
  [
    '"X-Api-Key":"abc","access_key":"d"',
    '"X-Api-Key":"***","access_key":"***"',
  ],
  ['"Authorization":"abc"', '"Authorization":"***"'],
  ["https://abc@host/path", "https://***@host/path"],
  ["passthru: true", "passthru: true"],
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

testRows(
  "formatMasked() masks the values of secrets only",
  [
    [{ password: 42, name: "x" }, { password: "***", name: "x" }],
    [{ secrets: ["a"], n: ["a", "b"] }, { secrets: ["***"], n: ["a", "b"] }],
    [{ credentials: { user: "a", on: true } }, {
      credentials: { user: "***", on: true },
    }],
    [{ cniArgs: [["K8S_POD_NAME", "p"], ["DB_PASSWORD", "a"]] }, {
      cniArgs: [["K8S_POD_NAME", "p"], ["DB_PASSWORD", "***"]],
    }],
    [{ args: ["run", "--token", "a", "--verbose", "b"] }, {
      args: ["run", "--token", "***", "--verbose", "b"],
    }],
    [{ name: "MY_TOKEN", value: "a" }, { name: "MY_TOKEN", value: "***" }],
    [{ tokenFile: "/run/token" }, { tokenFile: "/run/token" }],
  ],
  ([value, want]: [unknown, unknown]) =>
    assertEquals(JSON.parse(formatMasked(value)), want),
);

Deno.test("maskSecrets() masks long words in linear time", () => {
  const word = "a".repeat(64 * 1024);
  assertEquals(maskSecrets(word), word);
});

Deno.test("Collection follows links to files, and skips devices", async () => {
  using directory = new PluginDirectory();
  directory.addFile("a.conf", "x");
  await Deno.symlink("a.conf", `${directory.path}/link`);
  await Deno.symlink("/dev/zero", `${directory.path}/zero`);
  const collection = new Collection(new AbortController().signal, () => {});
  collection.addDirectory("config", directory.path);
  assertEquals([...collection.files.keys()].toSorted(), [
    "config/a.conf",
    "config/link",
  ]);
  assertEquals([...collection.missing.keys()], ["config/zero"]);
});

Deno.test("maskSecrets() masks keys that plugins declare secret", () => {
  assert(SECRET_KEYS.includes("etcd_password"));
  for (const key of SECRET_KEYS) {
    assertEquals(maskSecrets(`{"${key}":"abc"}`), `{"${key}":"***"}`);
  }
});

Deno.test("maskKeys() masks keys that third-party plugins declare secret", () => {
  const text = '{"phrase":"abc"}';
  assertEquals(maskSecrets(text), text);
  maskKeys(["phrase"]);
  try {
    assertEquals(maskSecrets(text), '{"phrase":"***"}');
    assertEquals(JSON.parse(formatMasked({ phrase: 1 })), { phrase: "***" });
  } finally {
    maskKeys([]);
  }
});
