import { AsyncLocalStorage } from "node:async_hooks";
import { assertEquals, assertRejects } from "@std/assert";
import { enableChangeChecks, withChangeCheck } from "../../ffi/change_check.ts";
import { say, TalkServer } from "../../tests/_harness/unix_server.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { CniError } from "../../base/error.ts";
import { ask, NoDaemonError } from "./ask.ts";

/** Asks a program that answers each line of a request like this. */
async function askProgram(
  answer: string,
  signal?: AbortSignal,
): Promise<unknown> {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const path = `${directory}/dhcp.sock`;
  try {
    const listener = Deno.listen({ transport: "unix", path });
    await using _ = new TalkServer(listener, async (connection) => {
      await connection.read(new Uint8Array(1024));
      await say(connection, answer);
    });
    return await ask(path, { command: "STATUS" }, signal);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

testRows<[string, string]>(
  "ask() treats other programs as an absent daemon, so that DEL succeeds",
  [
    [
      "HTTP/1.1 400 Bad Request\r\n\r\n",
      "belongs to the Go plugin, and uses a different protocol",
    ],
    ["220 mail.example.com ESMTP\n", "is not a DHCP daemon"],
    ["42\n", "is not a DHCP daemon"],
    ["\0\0\x06\x04 of gRPC", "is not a DHCP daemon"],
    ['{"error":"bad request"}\n', "is not a DHCP daemon"],
    ['{"error":{"code":-32700,"message":"parse error"}}\n', "is not a DHCP"],
    ['{"status":"ok"}\n', "is not a DHCP daemon"],
    ['{"lease":{}}\n', "is not a DHCP daemon"],
    ["x".repeat(1 << 21), "is not a DHCP daemon"],
  ],
  async ([answer, message]) => {
    const error = await assertRejects(
      () => askProgram(answer),
      NoDaemonError,
      message,
    );
    assertEquals(error.code, 11);
  },
  ([answer]) => answer.slice(0, 20).trim(),
);

Deno.test("ask() reports why it has no answer from the daemon", async () => {
  const late = AbortSignal.abort();
  await assertRejects(() => askProgram("{}\n", late), CniError, "in time");
  await assertRejects(() => askProgram(""), CniError, "went away before");
  const refusal = { code: 7, msg: "no", details: "because" };
  const answer = `${JSON.stringify({ error: refusal })}\n`;
  const error = await assertRejects(() => askProgram(answer), CniError, "no");
  assertEquals([error.code, error.details], [7, "because"]);
  assertEquals(error instanceof NoDaemonError, false);
});

Deno.test("ask() stops waiting at its time limit", async () => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const path = `${directory}/dhcp.sock`;
  // It accepts connections, and never reads.
  using _silent = Deno.listen({ transport: "unix", path });
  const asking = ask(path, { command: "STATUS" }, undefined, 20);
  await assertRejects(() => asking, CniError, "did not answer in time");
  await Deno.remove(directory, { recursive: true });
});

Deno.test("ask() sends no request for a superseded call", async () => {
  enableChangeChecks(new AsyncLocalStorage());
  const check = (): never => {
    throw new Error("superseded");
  };
  await assertRejects(
    () => withChangeCheck(check, () => askProgram("{}\n")),
    Error,
    "superseded",
  );
  assertEquals(await askProgram("{}\n"), undefined);
});
