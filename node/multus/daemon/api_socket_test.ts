import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname } from "@std/path/posix";
import { CniError } from "../../../cni/error.ts";
import { deadline, pause } from "../../../cni/deadline.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import { leaveSocket } from "../../../tests/_harness/unix_server.ts";
import { ApiSocket } from "./api_socket.ts";
import { exchangeOverUnix } from "../../../plugins/multus/pod/unix_http.ts";

/** A folder that does not exist yet. */
class Scene implements AsyncDisposable {
  readonly #parent = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly folder: string = `${this.#parent}/run/multus`;
  readonly path: string = `${this.folder}/api.sock`;
  readonly logged: string[] = [];
  readonly #opened: Listening[] = [];

  makeFolder(mode: number): void {
    Deno.mkdirSync(this.folder, { recursive: true });
    Deno.chmodSync(this.folder, mode);
  }

  /** Listens; answers every request with the name. */
  async listen(
    name: string,
    reply: () => Promise<Response> = () => Promise.resolve(new Response(name)),
  ): Promise<Listening> {
    const log = (message: string): void =>
      void this.logged.push(`${name}: ${message}`);
    const socket = await ApiSocket.listen({
      folder: this.folder,
      handle: reply,
      log: { info: log, warn: log },
      lookMs: 10,
    });
    const listening = new Listening(socket);
    this.#opened.push(listening);
    return listening;
  }

  /** Returns the name of the answering daemon; "" without an answer. */
  async ask(): Promise<string> {
    try {
      const request = { method: "GET", path: "/", headers: [] };
      const soon = deadline(5000);
      return (await exchangeOverUnix(this.path, request, soon)).text;
    } catch {
      return "";
    }
  }

  async waitFor(name: string): Promise<void> {
    await eventually(
      `"${name}" answers`,
      async () => await this.ask() === name,
    );
  }

  /** Lists the files of the folder. */
  get files(): string[] {
    return [...Deno.readDirSync(this.folder)].map(({ name }) => name);
  }

  mode(path: string): number {
    return (Deno.lstatSync(path).mode ?? 0) & 0o777;
  }

  remove(path: string): void {
    Deno.removeSync(path, { recursive: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const listening of this.#opened) await listening.close(1000);
    this.remove(this.#parent);
  }
}

/** A socket that is kept in place until disposed of. */
class Listening {
  readonly #socket: ApiSocket;
  readonly #controller = new AbortController();
  readonly #running: Promise<void>;

  constructor(socket: ApiSocket) {
    this.#socket = socket;
    this.#running = socket.keepInPlace(this.#controller.signal);
  }

  async close(withinMs: number): Promise<void> {
    this.#controller.abort();
    await this.#running;
    await this.#socket.close(withinMs);
  }
}

Deno.test("ApiSocket.listen() makes a socket for its user only", async (t) => {
  await t.step("where there is no folder", async () => {
    await using scene = new Scene();
    await scene.listen("one");
    const { folder, path } = scene;
    assertEquals([scene.mode(folder), scene.mode(path)], [0o700, 0o600]);
    assertEquals([scene.files, await scene.ask()], [["api.sock"], "one"]);
  });
  for (const mode of [0o755, 0o1777, 0o750]) {
    await t.step(
      `in a folder of mode ${mode.toString(8)}, as it is`,
      async () => {
        await using scene = new Scene();
        scene.makeFolder(mode);
        await scene.listen("one");
        assertEquals(scene.mode(scene.folder), mode & 0o777);
        assertEquals([scene.mode(scene.path), await scene.ask()], [
          0o600,
          "one",
        ]);
      },
    );
  }
});

Deno.test("ApiSocket.listen() takes the place of what is there", async (t) => {
  const rows: [string, (path: string) => void][] = [
    ["a stale socket", leaveSocket],
    ["a file", (path) => Deno.writeTextFileSync(path, "")],
  ];
  for (const [name, leave] of rows) {
    await t.step(name, async () => {
      await using scene = new Scene();
      scene.makeFolder(0o700);
      leave(scene.path);
      await scene.listen("one");
      assertEquals(await scene.ask(), "one");
    });
  }
});

Deno.test("ApiSocket.listen() refuses where there can be none", async (t) => {
  for (const mode of [0o777, 0o770]) {
    await t.step(`a folder of mode ${mode.toString(8)}`, async () => {
      await using scene = new Scene();
      scene.makeFolder(mode);
      const message = "users other than its owner can write to it";
      await assertRejects(() => scene.listen("one"), CniError, message);
      assertEquals([scene.mode(scene.folder), scene.files], [mode, []]);
    });
  }
  await t.step("no folder", async () => {
    await using scene = new Scene();
    await Deno.writeTextFile(dirname(scene.folder), "");
    await assertRejects(() => scene.listen("one"), CniError, "Cannot listen");
  });
  await t.step("a folder in the place of the socket", async () => {
    await using scene = new Scene();
    scene.makeFolder(0o700);
    await Deno.mkdir(scene.path);
    await assertRejects(() => scene.listen("one"), CniError, "Cannot listen");
    assertEquals(scene.files, ["api.sock"]);
  });
  const isRoot = Deno.uid() === 0;
  await t.step({
    name: `somebody else's folder${isRoot ? "" : " (skipped: needs root)"}`,
    ignore: !isRoot,
    async fn(): Promise<void> {
      await using scene = new Scene();
      scene.makeFolder(0o700);
      await Deno.chown(scene.folder, 1234, 1234);
      await assertRejects(
        () => scene.listen("one"),
        CniError,
        "it is the folder of user 1234",
      );
    },
  });
});

Deno.test("ApiSocket lets a later one take its place", async () => {
  await using scene = new Scene();
  const one = await scene.listen("one");
  const two = await scene.listen("two");
  assertEquals(await scene.ask(), "two");
  await eventually("the first one notices", () => scene.logged.length > 0);
  assertEquals(scene.logged, ["one: Another daemon has taken the socket"]);
  await one.close(1000);
  assertEquals(await scene.ask(), "two");
  await two.close(1000);
  assertEquals(scene.files, []);
});

Deno.test("ApiSocket puts the socket back that somebody has removed", async (t) => {
  await t.step("the socket", async () => {
    await using scene = new Scene();
    await scene.listen("one");
    scene.remove(scene.path);
    await scene.waitFor("one");
  });
  await t.step("the whole folder", async () => {
    await using scene = new Scene();
    await scene.listen("one");
    scene.remove(scene.folder);
    await scene.waitFor("one");
  });
  await t.step("a later daemon that ended", async () => {
    await using scene = new Scene();
    await scene.listen("one");
    await (await scene.listen("two")).close(1000);
    await scene.waitFor("one");
  });
  await t.step("a later daemon that was killed", async () => {
    await using scene = new Scene();
    await scene.listen("one");
    scene.remove(scene.path);
    leaveSocket(scene.path);
    await scene.waitFor("one");
  });
});

Deno.test("ApiSocket.close() removes the socket, and lets answers be finished", async () => {
  await using scene = new Scene();
  const answered = Promise.withResolvers<Response>();
  let isAsked = false;
  const socket = await scene.listen("one", () => {
    isAsked = true;
    return answered.promise;
  });
  const asking = scene.ask();
  await eventually("it is asked", () => isAsked);
  const closing = socket.close(5000);
  await eventually("the socket is gone", () => scene.files.length === 0);
  answered.resolve(new Response("late"));
  assertEquals(await asking, "late");
  await closing;
});

Deno.test("ApiSocket.close() does not wait for ever", async () => {
  await using scene = new Scene();
  let isAsked = false;
  const controller = new AbortController();
  const socket = await scene.listen("one", async () => {
    isAsked = true;
    await pause(60_000, controller.signal);
    return new Response("late");
  });
  const asking = scene.ask();
  await eventually("it is asked", () => isAsked);
  const startMs = performance.now();
  await socket.close(50);
  assert(performance.now() - startMs < 2000);
  controller.abort();
  await asking;
});
