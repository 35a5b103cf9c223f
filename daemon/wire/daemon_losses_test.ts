import { assert, assertEquals } from "@std/assert";
import { HURRIED_TAKE_MS, TAKE_MS } from "./call_format.ts";
import {
  hasRecentLoss,
  LOSS_PERIOD_MS,
  recordLoss,
  recordUnasked,
  takeUnasked,
} from "./daemon_losses.ts";
import { lossesFile, offFile } from "./daemon_socket.ts";

/** Runs a test with the path of a socket in a directory of its own. */
function test(
  name: string,
  fn: (socket: string, isOff: () => boolean) => Promise<void>,
): void {
  Deno.test(name, async () => {
    const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
    const socket = `${directory}/daemon.sock`;
    const isOff = (): boolean =>
      [...Deno.readDirSync(directory)].some(({ name }) =>
        name === "daemon.sock.off"
      );
    await fn(socket, isOff);
    await Deno.remove(directory, { recursive: true });
  });
}

test(
  "the tenth loss within a minute turns a daemon off",
  async (socket, isOff) => {
    const start = 1_700_000_000_000;
    // Nine within any minute, and one from the future.
    await recordLoss(socket, TAKE_MS, start + 3_600_000);
    for (let index = 0; index < 20; index++) {
      await recordLoss(socket, TAKE_MS, start + index * 6700);
      assertEquals(isOff(), false, `${index}`);
    }
    await recordLoss(socket, TAKE_MS, start + 19 * 6700);
    assertEquals(isOff(), true);
    for (const path of [lossesFile(socket), offFile(socket)]) {
      assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o600);
    }
  },
);

test("a shorter wait is a smaller loss", async (socket, isOff) => {
  const now = 1_700_000_000_000;
  await recordLoss(socket, TAKE_MS, now);
  for (let ms = TAKE_MS; ms < 10 * TAKE_MS; ms += HURRIED_TAKE_MS) {
    assertEquals(isOff(), false, `after ${ms} ms`);
    await recordLoss(socket, HURRIED_TAKE_MS, now);
  }
  assertEquals(isOff(), true);
});

test("a loss is recent for a minute", async (socket) => {
  assertEquals(hasRecentLoss(socket), false);
  await recordLoss(socket);
  assertEquals(hasRecentLoss(socket), true);
  for (const offset of [-LOSS_PERIOD_MS, 2 * LOSS_PERIOD_MS]) {
    const time = new Date(Date.now() + offset);
    await Deno.utime(lossesFile(socket), time, time);
    assertEquals(hasRecentLoss(socket), false);
  }
});

test("losses of several calls at once all count", async (socket, isOff) => {
  await Promise.all(Array.from({ length: 10 }, () => recordLoss(socket)));
  assertEquals(isOff(), true);
});

test("the file of losses does not grow without end", async (socket, isOff) => {
  for (let index = 0; index < 1000; index++) {
    await recordLoss(socket, TAKE_MS, 1_700_000_000_000 + index * 60_000);
    const { size } = await Deno.stat(lossesFile(socket)).catch(() => ({
      size: 0,
    }));
    assert(size < 5000);
  }
  assertEquals(isOff(), false);
});

test("a loss follows no link and waits for no pipe", async (socket, isOff) => {
  const other = `${socket}.other`;
  await Deno.symlink(other, lossesFile(socket));
  for (let index = 0; index < 11; index++) await recordLoss(socket);
  await Deno.remove(lossesFile(socket));
  const { success } = await new Deno.Command("mkfifo", {
    args: [lossesFile(socket)],
  }).output();
  assert(success);
  await recordLoss(socket);
  assertEquals([isOff(), (await Deno.lstat(lossesFile(socket))).isFifo], [
    false,
    true,
  ]);
  assertEquals(await Deno.stat(other).catch(() => undefined), undefined);
});

Deno.test("a loss that cannot be recorded is ignored", async () => {
  await recordLoss("/nonexistent/daemon.sock");
});

const CALL = {
  command: "ADD",
  containerId: "a b\n",
  ifName: "eth0",
  network: '"n"',
};

test("calls that do not ask are told in order", async (socket, isOff) => {
  assertEquals(takeUnasked(socket), []);
  await recordUnasked(socket, CALL);
  assertEquals([takeUnasked(socket), isOff()], [[], false]);
  await Deno.writeTextFile(offFile(socket), "");
  assertEquals([takeUnasked(socket), isOff()], [[], false]);
  await Deno.writeTextFile(offFile(socket), "");
  const calls = ["DEL", "ADD", "DEL"].map((command) => ({ ...CALL, command }));
  for (const call of calls) await recordUnasked(socket, call);
  assertEquals([takeUnasked(socket), isOff()], [calls, false]);
  assertEquals(takeUnasked(socket), []);
});

test("calls that do not ask fill no disk", async (socket, isOff) => {
  await Deno.writeTextFile(offFile(socket), "");
  const long = { ...CALL, network: "x".repeat(300_000) };
  for (let index = 0; index < 9; index++) await recordUnasked(socket, long);
  assert((await Deno.stat(offFile(socket))).size < 1_500_000);
  assertEquals([takeUnasked(socket), isOff()], [undefined, false]);
});

test("what cannot be read may be any calls", async (socket, isOff) => {
  const line = JSON.stringify(Object.values(CALL));
  for (const text of [line, `${line}\n[`, "5\n", `${line}\n\n`]) {
    await Deno.writeTextFile(offFile(socket), text);
    assertEquals([takeUnasked(socket), isOff()], [undefined, false], text);
  }
  await Deno.writeTextFile(`${socket}.other`, "");
  await Deno.symlink(`${socket}.other`, offFile(socket));
  await recordUnasked(socket, CALL);
  assertEquals([takeUnasked(socket), isOff()], [undefined, false]);
  assertEquals(await Deno.readTextFile(`${socket}.other`), "");
});
