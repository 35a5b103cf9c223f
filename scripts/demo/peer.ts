/**
 * The program that runs in the demo's containers: `listen PORT` answers every
 * connection with the name it was given, `ask ADDRESS PORT` prints the answer.
 *
 * @module
 */

const [role, first = "", second = ""] = Deno.args;

/** Answers one connection after the other until it is killed. */
async function listen(port: number, name: string): Promise<void> {
  const listener = Deno.listen({ hostname: "::", port });
  console.log("listening");
  for await (const connection of listener) {
    await connection.write(new TextEncoder().encode(name));
    connection.close();
  }
}

/** Asks one address for its name; fails after two seconds. */
async function ask(hostname: string, port: number): Promise<void> {
  using connection = await Deno.connect({
    hostname,
    port,
    signal: AbortSignal.timeout(2000),
  });
  const answer = new Uint8Array(100);
  const length = await connection.read(answer);
  console.log(new TextDecoder().decode(answer.subarray(0, length ?? 0)));
}

if (role === "listen") await listen(Number(first), second);
if (role === "ask") await ask(first, Number(second));
