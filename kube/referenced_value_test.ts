import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../base/error.ts";
import { PluginDirectory } from "../tests/_harness/plugin_directory.ts";
import { checkToken, readNamedFile, readPem } from "./referenced_value.ts";
import { eachRow } from "../tests/_harness/table.ts";

const CERTIFICATE =
  "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";

Deno.test("readNamedFile() reads files from the directory of the configuration", async (t) => {
  using directory = new PluginDirectory();
  const origin = { what: 'kubeconfig "/k"', directory: directory.path };
  directory.addFile("a", " x\n");
  directory.addFile("empty", "\n");
  await t.step("relative", () => {
    assertEquals(readNamedFile(origin, "tokenFile", "./a"), "x");
  });
  await t.step("absolute", () => {
    assertEquals(
      readNamedFile(origin, "tokenFile", `${directory.path}/a`),
      "x",
    );
  });
  const rows = [["none", "cannot be read"], ["empty", "is empty"]] as const;
  await eachRow(t, rows, ([file, why]) => {
    const error = assertThrows(
      () => readNamedFile(origin, "tokenFile", file),
      CniError,
    );
    assertEquals([error.code, error.message], [
      7,
      `Cannot use kubeconfig "/k": tokenFile: "${directory.path}/${file}" ${why}`,
    ]);
  }, ([file, why]) => `${file}: ${why}`);
});

Deno.test("readPem() reads a file or base64, and reports problems without it", async (t) => {
  using directory = new PluginDirectory();
  const origin = { what: 'kubeconfig "/k"', directory: directory.path };
  directory.addFile("cert", CERTIFICATE);
  directory.addFile("text", "secret");
  const key = "client-certificate";
  const read = (file?: string, data?: string): string | undefined =>
    readPem(origin, { key, file, data }, "CERTIFICATE");
  const data = btoa(`${CERTIFICATE} 2`);
  await t.step("neither", () => assertEquals(read("", ""), undefined));
  await t.step("file", () => assertEquals(read("cert"), CERTIFICATE));
  await t.step(
    "data",
    () => assertEquals(read(undefined, data), `${CERTIFICATE} 2`),
  );
  await t.step("both: the data has precedence", () => {
    assertEquals(read("none", data), `${CERTIFICATE} 2`);
  });
  await t.step("base64 in lines", () => {
    assertEquals(
      read("", `${data.slice(0, 8)}\n${data.slice(8)}\n`),
      `${CERTIFICATE} 2`,
    );
  });
  const rows: readonly [
    string,
    string | undefined,
    string | undefined,
    string,
  ][] = [
    [
      "no base64",
      undefined,
      "secret!",
      "client-certificate-data: it is not base64",
    ],
    [
      "no PEM",
      undefined,
      btoa("secret"),
      "client-certificate-data: it has no PEM block of a CERTIFICATE",
    ],
    [
      "no PEM in the file",
      "text",
      undefined,
      "client-certificate: it has no PEM block of a CERTIFICATE",
    ],
  ];
  await eachRow(t, rows, ([, file, data, why]) => {
    const error = assertThrows(() => read(file, data), CniError);
    assertEquals(error.message, `Cannot use kubeconfig "/k": ${why}`);
    assert(!error.toString().includes("secret"), "nothing of it is shown");
  });
});

Deno.test("checkToken() refuses characters that break a header", async (t) => {
  const origin = { what: "x", directory: "/" };
  await t.step("white space around it", () => {
    assertEquals(checkToken(origin, "token", " a.b-c_d \n"), "a.b-c_d");
  });
  await eachRow(t, ["a\nb", "a\r\nX: y", "ä", ""], (token) => {
    const error = assertThrows(() => checkToken(origin, "token", token));
    assert(error instanceof CniError && error.code === 7);
    assertEquals(
      error.message,
      "Cannot use x: token: it has invalid characters",
    );
  }, (token) => JSON.stringify(token));
});
