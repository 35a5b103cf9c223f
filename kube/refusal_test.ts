import { assert, assertEquals } from "@std/assert";
import { refusal } from "./refusal.ts";
import { eachRow } from "../tests/_harness/table.ts";

const REQUEST = { method: "GET", url: "https://h/x" };

function answer(
  status: number,
  headers: Record<string, string> = {},
): Response {
  return new Response(null, { status, headers });
}

Deno.test("refusal() uses the server's message", () => {
  const body = JSON.stringify({
    kind: "Status",
    reason: "NotFound",
    message: 'pods "x" not found',
    details: { retryAfterSeconds: 3 },
    code: 404,
  });
  const { status, reason, message, retryAfterMs } = refusal(
    REQUEST,
    answer(404),
    body,
  );
  assertEquals({ status, reason, message, retryAfterMs }, {
    status: 404,
    reason: "NotFound",
    message: 'pods "x" not found',
    retryAfterMs: 3000,
  });
});

Deno.test("refusal() has messages for answers without a Status", async (t) => {
  const plain = { "content-type": "text/plain; charset=utf-8" };
  const html = { "content-type": "text/html" };
  const notFound = "the server could not find the requested resource";
  const rows: readonly [number, Record<string, string>, string, string][] = [
    [404, {}, "", notFound],
    [404, plain, "404 page not found\n", `${notFound}: 404 page not found`],
    [404, html, "<html>", notFound],
    [404, {}, "null", notFound],
    [404, {}, '{"kind":"Pod"}', notFound],
    [404, {}, '{"kind":"Status"}', notFound],
    [401, {}, "", "the server has asked for the client to provide credentials"],
    [418, {}, "", "the server answered 418"],
    [
      302,
      { location: "https://elsewhere" },
      "",
      "the server answered 302, and redirects are not followed",
    ],
  ];
  await eachRow(t, rows, ([status, headers, body, why]) => {
    const error = refusal(REQUEST, answer(status, headers), body);
    assertEquals([error.status, error.message], [
      status,
      `Get "https://h/x": ${why}`,
    ]);
  }, ([status, , body]) => `${status} ${body}`);
  await t.step("long text", () => {
    const error = refusal(REQUEST, answer(500, plain), "x".repeat(10_000));
    assert(error.message.length < 300);
  });
});

Deno.test("refusal() reads Retry-After", async (t) => {
  const rows: readonly [string, (ms: number | undefined) => boolean][] = [
    ["2", (ms) => ms === 2000],
    ["0", (ms) => ms === 0],
    [
      new Date(Date.now() + 60_000).toUTCString(),
      (ms = 0) => ms > 55_000 && ms <= 60_000,
    ],
    ["Thu, 01 Jan 1970 00:00:00 GMT", (ms) => ms === 0],
    ["soon", (ms) => ms === undefined],
  ];
  await eachRow(t, rows, ([header, isExpected]) => {
    const error = refusal(
      REQUEST,
      answer(429, { "retry-after": header }),
      "",
    );
    assert(isExpected(error.retryAfterMs), String(error.retryAfterMs));
  });
});
