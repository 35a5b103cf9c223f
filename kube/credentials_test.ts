import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { basic, bearer, FileCredentials } from "./credentials.ts";

/** Credentials that the test replaces, and a clock. */
class Scene {
  nowMs = 0;
  reads = 0;
  token: string | undefined = "t1";
  readonly credentials = new FileCredentials(
    () => {
      this.reads++;
      if (this.token === undefined) throw new Error("there is no such file");
      return { authorization: bearer(this.token) };
    },
    () => this.nowMs,
  );

  async get(): Promise<string | undefined> {
    return (await this.credentials.get()).authorization;
  }
}

Deno.test("FileCredentials reads the files immediately", () => {
  const scene = new Scene();
  assertEquals([scene.reads, scene.credentials.known], [
    1,
    { authorization: "Bearer t1" },
  ]);
  assertThrows(() =>
    new FileCredentials(() => {
      throw new Error("there is no such file");
    })
  );
});

Deno.test("FileCredentials reads the files again after a minute", async () => {
  const scene = new Scene();
  scene.token = "t2";
  scene.nowMs = 59_999;
  assertEquals([await scene.get(), scene.reads], ["Bearer t1", 1]);
  scene.nowMs = 60_000;
  assertEquals([await scene.get(), scene.reads], ["Bearer t2", 2]);
  scene.nowMs = 119_999;
  assertEquals([await scene.get(), scene.reads], ["Bearer t2", 2]);
});

Deno.test("FileCredentials returns the same object until the files change", async () => {
  const scene = new Scene();
  const first = await scene.credentials.get();
  scene.nowMs = 60_000;
  assertStrictEquals(await scene.credentials.get(), first);
  assertEquals(scene.reads, 2);
});

Deno.test("FileCredentials keeps credentials while the files cannot be read", async () => {
  const scene = new Scene();
  scene.token = undefined;
  scene.nowMs = 60_000;
  assertEquals(await scene.get(), "Bearer t1");
  scene.token = "t2";
  assertEquals(await scene.get(), "Bearer t2");
});

Deno.test("FileCredentials.renew() reads refused credentials again, once", async () => {
  const scene = new Scene();
  const refused = await scene.credentials.get();
  scene.token = "t2";
  scene.credentials.renew(refused);
  assertEquals([await scene.get(), scene.reads], ["Bearer t2", 2]);
  scene.credentials.renew(refused);
  assertEquals([await scene.get(), scene.reads], ["Bearer t2", 2]);
});

Deno.test("basic() encodes UTF-8", () => {
  assertEquals(basic("a", "b"), `Basic ${btoa("a:b")}`);
  assertEquals(basic("ä", ":"), `Basic ${btoa("\xc3\xa4::")}`);
});
