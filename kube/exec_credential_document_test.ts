import { assert, assertEquals, assertThrows } from "@std/assert";
import { decodeExecCredential } from "./exec_credential_document.ts";

const apiVersion = "client.authentication.k8s.io/v1";
const EXEC = { command: "aws", apiVersion };

function print(status: unknown, head: object = {}): string {
  return JSON.stringify({
    kind: "ExecCredential",
    apiVersion,
    status,
    ...head,
  });
}

Deno.test("decodeExecCredential() reads what a program prints", async (t) => {
  await t.step("a token", () => {
    assertEquals(decodeExecCredential(print({ token: "t1" }), EXEC), {
      credentials: { authorization: "Bearer t1" },
      expiresAtMs: Infinity,
    });
  });
  await t.step("a certificate, until it expires", () => {
    const text = print({
      clientCertificateData: "c",
      clientKeyData: "k",
      expirationTimestamp: "2030-01-02T03:04:05Z",
    });
    assertEquals(decodeExecCredential(text, EXEC), {
      credentials: { certificate: { cert: "c", key: "k" } },
      expiresAtMs: Date.UTC(2030, 0, 2, 3, 4, 5),
    });
  });
});

Deno.test("decodeExecCredential() says what is wrong, and shows nothing", async (t) => {
  const rows: readonly [string, string][] = [
    ["secret", "exec: executable aws printed no JSON"],
    ["", "exec: executable aws printed no JSON"],
    [print({}), "exec: executable aws didn't return a token or cert/key pair"],
    [
      print({ clientKeyData: "secret" }),
      "exec: executable aws returned only certificate or key, not both",
    ],
    [
      print({ token: "secret\nx" }),
      "exec: executable aws printed a token with characters that no token may have",
    ],
    [
      print({ token: "secret" }, { apiVersion: "x/v1beta1" }),
      `exec: executable aws is configured to use API version ${apiVersion}, and returned version x/v1beta1`,
    ],
    [
      print(undefined),
      "Cannot decode what exec: executable aws printed: status: missing",
    ],
    [
      print({ token: 5 }),
      "Cannot decode what exec: executable aws printed: status.token: expected a string, got a number",
    ],
  ];
  for (const [text, message] of rows) {
    await t.step(message, () => {
      const error = assertThrows(() => decodeExecCredential(text, EXEC));
      assert(error instanceof Error);
      assertEquals(error.message, message);
    });
  }
});
