import { assertEquals } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { StateServer } from "./state_server.ts";

Deno.test("StateServer listens when another program has left the port", async () => {
  const lines: string[] = [];
  const note = (level: string) => (message: string): void =>
    void lines.push(`${level} ${message}`);
  const log = { warn: note("warn"), error: note("error"), info: note("info") };
  const other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr as Deno.NetAddr;
  const address = { hostname: "127.0.0.1", port };
  await using server = new StateServer({
    address,
    respond: () => new Response("state"),
    log,
    retryMs: 1,
  });
  await eventually("it has tried", () => lines.length > 0);
  const { problem = "" } = server.describe();
  assertEquals(server.describe().address, `127.0.0.1:${port}`);
  assertEquals(problem.includes("Address already in use"), true, problem);
  other.close();
  await eventually("it listens", () => server.describe().problem === undefined);
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`);
  assertEquals(await answer.text(), "state");
  // The problem is logged once, however often it tried.
  assertEquals(lines, ["error Cannot serve the metrics", "info serving"]);
});

Deno.test("StateServer ends while it waits for the port", async () => {
  using other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr as Deno.NetAddr;
  const ignore = (): void => {};
  const log = { warn: ignore, error: ignore, info: ignore };
  const respond = (): Response => new Response();
  const address = { hostname: "127.0.0.1", port };
  await using _server = new StateServer({ address, respond, log });
});
