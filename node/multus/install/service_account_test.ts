import { assertEquals, assertThrows } from "@std/assert";
import type { Environment } from "../../../cni/args.ts";
import { CniError } from "../../../cni/error.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import { formatServer, readCaBundle, readToken } from "./service_account.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

Deno.test("formatServer() forms an address of any family", async (t) => {
  const rows: [string, Environment, string][] = [
    ["IPv4", { KUBERNETES_SERVICE_HOST: "10.96.0.1" }, "https://10.96.0.1:443"],
    ["IPv6", { KUBERNETES_SERVICE_HOST: "fd00::1" }, "https://[fd00::1]:443"],
    [
      "IPv6 in brackets",
      { KUBERNETES_SERVICE_HOST: "[fd00::1]" },
      "https://[fd00::1]:443",
    ],
    [
      "a name",
      { KUBERNETES_SERVICE_HOST: "api.local" },
      "https://api.local:443",
    ],
    [
      "another protocol",
      { KUBERNETES_SERVICE_HOST: "a", KUBERNETES_SERVICE_PROTOCOL: "http" },
      "http://a:443",
    ],
  ];
  await eachRow(t, rows, ([, env, expected]) => {
    const server = formatServer({ KUBERNETES_SERVICE_PORT: "443", ...env });
    assertEquals(server, expected);
  });
});

Deno.test("formatServer() needs host and port", () => {
  const rows: Environment[] = [
    {},
    { KUBERNETES_SERVICE_HOST: "a" },
    { KUBERNETES_SERVICE_PORT: "443" },
    { KUBERNETES_SERVICE_HOST: "", KUBERNETES_SERVICE_PORT: "443" },
  ];
  for (const env of rows) {
    assertThrows(
      () => formatServer(env),
      CniError,
      "Cannot tell where the API server is",
    );
  }
});

Deno.test("readToken() trims, and tells an empty token from none", () => {
  using folder = new ConfFolder({ token: " abc \n", "empty/token": "\n" });
  assertEquals(readToken(folder.path), "abc");
  assertEquals(readToken(`${folder.path}/none`), undefined);
  assertThrows(
    () => readToken(`${folder.path}/empty`),
    CniError,
    `Cannot use "${folder.path}/empty/token": it is empty`,
  );
});

Deno.test("readCaBundle() needs the file", () => {
  using folder = new ConfFolder({ "ca.crt": "CA" });
  assertEquals(new TextDecoder().decode(readCaBundle(folder.path)), "CA");
  assertThrows(() => readCaBundle("/nowhere"), CniError, "/nowhere/ca.crt");
});
