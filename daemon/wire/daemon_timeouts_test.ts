import { assert, assertEquals } from "@std/assert";
import { SHORT_TAKE_MS, TAKE_MS } from "./call_format.ts";
import {
  hasRecentTimeout,
  recordLocalCall,
  recordTimeout,
  takeLocalCalls,
  TIMEOUT_PERIOD_MS,
} from "./daemon_timeouts.ts";
import { offFile, timeoutsFile } from "./daemon_socket.ts";

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
  "the tenth timeout within a minute turns a daemon off",
  async (socket, isOff) => {
    const start = 1_700_000_000_000;
    // Nine within any minute, and one from the future.
    await recordTimeout(socket, TAKE_MS, start + 3_600_000);
    for (let index = 0; index < 20; index++) {
      await recordTimeout(socket, TAKE_MS, start + index * 6700);
      assertEquals(isOff(), false, `${index}`);
    }
    await recordTimeout(socket, TAKE_MS, start + 19 * 6700);
    assertEquals(isOff(), true);
    for (const path of [timeoutsFile(socket), offFile(socket)]) {
      assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o600);
    }
  },
);

test("a shorter wait counts less", async (socket, isOff) => {
  const now = 1_700_000_000_000;
  await recordTimeout(socket, TAKE_MS, now);
  for (let ms = TAKE_MS; ms < 10 * TAKE_MS; ms += SHORT_TAKE_MS) {
    assertEquals(isOff(), false, `after ${ms} ms`);
    await recordTimeout(socket, SHORT_TAKE_MS, now);
  }
  assertEquals(isOff(), true);
});

test("a timeout is recent for a minute", async (socket) => {
  assertEquals(hasRecentTimeout(socket), false);
  await recordTimeout(socket);
  assertEquals(hasRecentTimeout(socket), true);
  for (const offset of [-TIMEOUT_PERIOD_MS, 2 * TIMEOUT_PERIOD_MS]) {
    const time = new Date(Date.now() + offset);
    await Deno.utime(timeoutsFile(socket), time, time);
    assertEquals(hasRecentTimeout(socket), false);
  }
});

test(
  "concurrent timeouts are all counted",
  async (socket, isOff) => {
    await Promise.all(Array.from({ length: 10 }, () => recordTimeout(socket)));
    assertEquals(isOff(), true);
  },
);

test(
  "the file of timeouts has a limited size",
  async (socket, isOff) => {
    for (let index = 0; index < 1000; index++) {
      await recordTimeout(socket, TAKE_MS, 1_700_000_000_000 + index * 60_000);
      const { size } = await Deno.stat(timeoutsFile(socket)).catch(() => ({
        size: 0,
      }));
      assert(size < 5000);
    }
    assertEquals(isOff(), false);
  },
);

test(
  "recordTimeout() follows no link and waits for no pipe",
  async (socket, isOff) => {
    const other = `${socket}.other`;
    await Deno.symlink(other, timeoutsFile(socket));
    for (let index = 0; index < 11; index++) await recordTimeout(socket);
    await Deno.remove(timeoutsFile(socket));
    const { success } = await new Deno.Command("mkfifo", {
      args: [timeoutsFile(socket)],
    }).output();
    assert(success);
    await recordTimeout(socket);
    assertEquals([isOff(), (await Deno.lstat(timeoutsFile(socket))).isFifo], [
      false,
      true,
    ]);
    assertEquals(await Deno.stat(other).catch(() => undefined), undefined);
  },
);

Deno.test("a timeout that cannot be recorded is ignored", async () => {
  await recordTimeout("/nonexistent/daemon.sock");
});

const CALL = {
  command: "ADD",
  containerId: "a b\n",
  ifName: "eth0",
  network: '"n"',
};

test("local calls are reported in order", async (socket, isOff) => {
  assertEquals(takeLocalCalls(socket), []);
  await recordLocalCall(socket, CALL);
  assertEquals([takeLocalCalls(socket), isOff()], [[], false]);
  await Deno.writeTextFile(offFile(socket), "");
  assertEquals([takeLocalCalls(socket), isOff()], [[], false]);
  await Deno.writeTextFile(offFile(socket), "");
  const calls = ["DEL", "ADD", "DEL"].map((command) => ({ ...CALL, command }));
  for (const call of calls) await recordLocalCall(socket, call);
  assertEquals([takeLocalCalls(socket), isOff()], [calls, false]);
  assertEquals(takeLocalCalls(socket), []);
});

test("the record of local calls has a limited size", async (socket, isOff) => {
  await Deno.writeTextFile(offFile(socket), "");
  const long = { ...CALL, network: "x".repeat(300_000) };
  for (let index = 0; index < 9; index++) await recordLocalCall(socket, long);
  assert((await Deno.stat(offFile(socket))).size < 1_500_000);
  assertEquals([takeLocalCalls(socket), isOff()], [undefined, false]);
});

test("an unreadable record names no local call", async (socket, isOff) => {
  const line = JSON.stringify(Object.values(CALL));
  for (const text of [line, `${line}\n[`, "5\n", `${line}\n\n`]) {
    await Deno.writeTextFile(offFile(socket), text);
    assertEquals([takeLocalCalls(socket), isOff()], [undefined, false], text);
  }
  await Deno.writeTextFile(`${socket}.other`, "");
  await Deno.symlink(`${socket}.other`, offFile(socket));
  await recordLocalCall(socket, CALL);
  assertEquals([takeLocalCalls(socket), isOff()], [undefined, false]);
  assertEquals(await Deno.readTextFile(`${socket}.other`), "");
});
