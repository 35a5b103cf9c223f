import { assertEquals, assertRejects } from "@std/assert";
import { pause } from "../../../cni/deadline.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import { noAnswer } from "../../../kube/no_answer.ts";
import { FakeChannel, json } from "../../../tests/_harness/fake_channel.ts";
import { type ForwardedAnswer, Forwarder } from "./forwarder.ts";

const GET = { method: "GET", path: "/x" };
const LONG_MS = 5000;

function broken(isUnsent = false): KubeError {
  return new KubeError("Get: EOF", { status: 0, isUnsent });
}

Deno.test("Forwarder.forward() answers whatever is answered", async (t) => {
  const rows: [string, Response, ForwardedAnswer][] = [
    ["an object", json({ a: 1 }), {
      status: 200,
      contentType: "application/json",
      retryAfter: null,
      text: '{"a":1}',
    }],
    [
      "a refusal",
      new Response("busy", {
        status: 429,
        headers: { "content-type": "text/plain", "retry-after": "2" },
      }),
      { status: 429, contentType: "text/plain", retryAfter: "2", text: "busy" },
    ],
  ];
  for (const [name, answer, expected] of rows) {
    await t.step(name, async () => {
      const forwarder = new Forwarder(new FakeChannel(() => answer));
      assertEquals(await forwarder.forward(GET, LONG_MS), expected);
    });
  }
});

Deno.test("Forwarder.forward() tries again on a connection that was just closed", async (t) => {
  const rows: [string, string, KubeError, number][] = [
    ["a GET", "GET", broken(), 2],
    ["a PATCH of the same value", "PATCH", broken(), 2],
    ["but no POST", "POST", broken(), 1],
    ["nor what nobody listens to", "GET", broken(true), 1],
    ["nor what is refused", "GET", new KubeError("no", { status: 403 }), 1],
  ];
  for (const [name, method, error, tries] of rows) {
    await t.step(name, async () => {
      const channel = new FakeChannel(() => {
        throw error;
      });
      const forwarder = new Forwarder(channel);
      await assertRejects(
        () => forwarder.forward({ method, path: "/x" }, LONG_MS),
        KubeError,
        error.message,
      );
      assertEquals(channel.requests.length, tries);
    });
  }
});

Deno.test("Forwarder.forward() ends in time", async () => {
  const channel = new FakeChannel(async (request, signal) => {
    await pause(LONG_MS, signal);
    const named = { method: request.method, url: "http://h/x" };
    throw noAnswer(named, undefined, signal);
  });
  const error = await assertRejects(
    () => new Forwarder(channel).forward(GET, 50),
    KubeError,
  );
  assertEquals([error.isTimeout, channel.requests.length], [true, 1]);
});

Deno.test("Forwarder.forward() has no more than 16 requests under way", async () => {
  let running = 0, most = 0;
  const channel = new FakeChannel(async () => {
    most = Math.max(most, ++running);
    await pause(5);
    running--;
    return json({});
  });
  const forwarder = new Forwarder(channel);
  const all = Array.from({ length: 50 }, () => forwarder.forward(GET, LONG_MS));
  const answers = await Promise.all(all);
  assertEquals([answers.length, most], [50, 16]);
});
