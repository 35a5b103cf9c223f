import { assertEquals, assertThrows } from "@std/assert";
import { ErrorCode, Http2Error } from "./http2_error.ts";
import { SendWindows } from "./send_windows.ts";

const INITIAL = 65_535;

/** Notes what may be sent as soon as it may. */
function note(
  windows: SendWindows,
  streamId: number,
  wanted: number,
): number[] {
  const rooms: number[] = [];
  void windows.take(streamId, wanted).then((room) => rooms.push(room));
  return rooms;
}

/** Lets all that can go on do so. */
async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve));
}

/** Takes the whole window of the connection, on a stream of its own. */
async function exhaust(windows: SendWindows): Promise<void> {
  windows.open(99);
  for (let left = INITIAL; left > 0;) left -= await windows.take(99, left);
}

Deno.test("SendWindows.take() gives no more than a frame holds", async () => {
  const windows = new SendWindows();
  windows.open(1);
  assertEquals(await windows.take(1, 10), 10);
  assertEquals(await windows.take(1, 20_000), 16_384);
});

Deno.test("SendWindows.take() waits for room on the stream", async () => {
  const windows = new SendWindows();
  windows.setInitialSize(5);
  windows.open(1);
  windows.open(3);
  assertEquals(await windows.take(1, 8), 5);
  const rooms = note(windows, 1, 3);
  windows.add(0, 100);
  windows.add(3, 100);
  await settle();
  assertEquals(rooms, []);
  windows.add(1, 2);
  await settle();
  assertEquals(rooms, [2]);
});

Deno.test("SendWindows.take() waits for room on the connection", async () => {
  const windows = new SendWindows();
  windows.open(1);
  await exhaust(windows);
  const rooms = note(windows, 1, 3);
  windows.add(1, 100);
  await settle();
  assertEquals(rooms, []);
  windows.add(0, 2);
  await settle();
  assertEquals(rooms, [2]);
});

Deno.test("SendWindows.take() gives nothing once the stream is closed", async (t) => {
  const ways: Record<string, (windows: SendWindows) => void> = {
    "by itself": (windows) => windows.close(1),
    "with all": (windows) => windows.closeAll(),
  };
  for (const [name, close] of Object.entries(ways)) {
    await t.step(name, async () => {
      const windows = new SendWindows();
      windows.setInitialSize(0);
      windows.open(1);
      const rooms = note(windows, 1, 3);
      close(windows);
      await settle();
      assertEquals(rooms, [0]);
      windows.add(1, 5);
      assertEquals(await windows.take(1, 1), 0);
    });
  }
});

Deno.test("SendWindows.setInitialSize() changes what streams have, to less than nothing even", async () => {
  const windows = new SendWindows();
  windows.open(1);
  assertEquals(await windows.take(1, 100), 100);
  windows.setInitialSize(40);
  const rooms = note(windows, 1, 100);
  windows.add(1, 60);
  await settle();
  assertEquals(rooms, []);
  windows.setInitialSize(47);
  await settle();
  assertEquals(rooms, [7]);
});

Deno.test("SendWindows.add() refuses nothing, and too much", async (t) => {
  const { flowControlError, protocolError } = ErrorCode;
  const rows: [increment: number, code: number][] = [
    [0, protocolError],
    [2 ** 31 - INITIAL, flowControlError],
  ];
  for (const [increment, code] of rows) {
    await t.step(`${increment} bytes`, () => {
      const error = assertThrows(
        () => new SendWindows().add(0, increment),
        Http2Error,
      );
      assertEquals(error.code, code);
    });
  }
});
