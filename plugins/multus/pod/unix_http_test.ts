import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { PluginFolder } from "../../../tests/_harness/plugin_folder.ts";
import {
  leaveSocket,
  saySilence,
  UnixServer,
} from "../../../tests/_harness/unix_server.ts";
import { deadline } from "../../../cni/deadline.ts";
import { exchangeOverUnix, type UnixRequest } from "./unix_http.ts";

const GET: UnixRequest = { method: "GET", path: "/a?b=c", headers: [] };
const PATIENCE_MS = 5000;

function exchange(
  server: UnixServer,
  request: UnixRequest = GET,
): ReturnType<typeof exchangeOverUnix> {
  return exchangeOverUnix(server.path, request, deadline(PATIENCE_MS));
}

Deno.test("exchangeOverUnix() reads responses, however they are split", async (t) => {
  const text = '{"a":"ä"}';
  const head =
    "HTTP/1.1 200 OK\r\ncontent-length: 10\r\nX-Some:  thing\r\n\r\n";
  const bytes = new TextEncoder().encode(head + text);
  const rows: [string, Uint8Array[]][] = [
    ["at once", [bytes]],
    ["byte by byte", [...bytes].map((byte) => Uint8Array.of(byte))],
  ];
  for (const [name, pieces] of rows) {
    await t.step(name, async () => {
      await using server = new UnixServer(async ({ say }) => {
        for (const piece of pieces) await say(piece);
      });
      const answer = await exchange(server);
      assertEquals([answer.status, answer.text], [200, text]);
      assertEquals(answer.headers.get("x-SOME"), "thing");
      assertEquals(answer.headers.get("other"), null);
    });
  }
});

Deno.test("exchangeOverUnix() does not wait until the connection is closed", async () => {
  await using server = new UnixServer(async (conversation) => {
    const head = "HTTP/1.1 404 Not Found\r\nContent-Length: 2";
    await conversation.say(`${head}\r\n\r\nno`);
    await conversation.saySilence();
  });
  const { status, text } = await exchange(server);
  assertEquals([status, text], [404, "no"]);
});

Deno.test("exchangeOverUnix() sends and receives large bodies", async () => {
  const body = "ä".repeat(1_000_000);
  using folder = new PluginFolder();
  const path = `${folder.path}/s.sock`;
  await using _server = Deno.serve(
    { path, onListen(): void {} },
    async (request) => {
      const type = request.headers.get("content-type") ?? "";
      const { pathname, search } = new URL(request.url);
      const headers = { "seen": [request.method, pathname, search].join(" ") };
      return new Response(type + await request.text(), { headers });
    },
  );
  const answer = await exchangeOverUnix(path, {
    method: "PATCH",
    path: "/x%20y?z=1",
    headers: [["content-type", "application/merge-patch+json"]],
    body,
  }, deadline(PATIENCE_MS));
  assert(answer.text === `application/merge-patch+json${body}`);
  assertEquals(answer.headers.get("seen"), "PATCH /x%20y ?z=1");
});

Deno.test("exchangeOverUnix() refuses an incomplete response", async (t) => {
  const ok = "HTTP/1.1 200 OK\r\n";
  const rows: [string, string, string][] = [
    ["nothing", "", "it ends before its end"],
    ["half a head", ok, "it ends before its end"],
    [
      "half a body",
      `${ok}content-length: 5\r\n\r\nhal`,
      "it ends before its end",
    ],
    ["too much", `${ok}content-length: 1\r\n\r\nab`, "it is longer"],
    ["no length", `${ok}\r\n{}`, 'its length is ""'],
    ["chunks", `${ok}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`, "length"],
    ["a wrong length", `${ok}content-length: -1\r\n\r\n`, 'length is "-1"'],
    ["a vast length", `${ok}content-length: 99999999\r\n\r\n`, "length is"],
    ["another version", "HTTP/2 200\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1"],
    ["another protocol", "220 mail ESMTP\r\n\r\n", "it is no HTTP/1.1"],
    ["an endless head", `${ok}${"a: b\r\n".repeat(9999)}`, "its head"],
    ["an endless line", `${ok}a: ${"b".repeat(20_000)}`, "its head"],
    [
      "chunks with a length",
      `${ok}content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
      "chunks",
    ],
    [
      "too much where there is nothing",
      "HTTP/1.1 204 x\r\ncontent-length: 1\r\n\r\na",
      "it is longer",
    ],
  ];
  for (const [name, said, problem] of rows) {
    await t.step(name, async () => {
      await using server = new UnixServer(({ say }) => say(said));
      const error = await assertRejects(() => exchange(server), Error);
      assertStringIncludes(error.message, problem);
    });
  }
});

Deno.test("exchangeOverUnix() aborts with its signal", async (t) => {
  await t.step("before it begins", async () => {
    await assertRejects(
      () => exchangeOverUnix("/nowhere", GET, AbortSignal.abort()),
      DOMException,
    );
  });
  await t.step("while it waits", async () => {
    await using server = new UnixServer(saySilence);
    const startMs = performance.now();
    await assertRejects(() => exchangeOverUnix(server.path, GET, deadline(50)));
    assert(performance.now() - startMs < 2000);
  });
});

Deno.test("exchangeOverUnix() fails at once without a server", async (t) => {
  using folder = new PluginFolder();
  const stale = `${folder.path}/stale.sock`;
  leaveSocket(stale);
  const rows: [string, string, new (...args: never[]) => Error][] = [
    ["no socket", `${folder.path}/none.sock`, Deno.errors.NotFound],
    ["a stale socket", stale, Deno.errors.ConnectionRefused],
  ];
  for (const [name, path, kind] of rows) {
    await t.step(name, async () => {
      const signal = deadline(PATIENCE_MS);
      await assertRejects(() => exchangeOverUnix(path, GET, signal), kind);
    });
  }
});
