import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { lockOf } from "./go_build.ts";
import { type Build, startGoPlugins } from "./go_plugins.ts";

/** A directory to build in, and a `go` that is a script. */
class Files implements Disposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "go-plugins-" });
  readonly build: Build = {
    directory: `${this.#directory}/v1`,
    go: `${this.#directory}/go`,
    packages: ["example.com/plugins/...@v1", "example.com/cnitool@v1"],
  };

  /** @param install What `go install` does */
  constructor(install: string) {
    const script = `#!/bin/sh\necho "$1" >> ${this.#directory}/calls
[ "$1" = install ] || exit 0\n${install}\n`;
    Deno.writeTextFileSync(this.build.go, script, { mode: 0o755 });
  }

  /** Lists what `go` was asked for. */
  calls(): string[] {
    const text = Deno.readTextFileSync(`${this.#directory}/calls`);
    return text.trim().split("\n");
  }

  /** Lists the files except go and the record of its calls. */
  list(): string[] {
    return [...Deno.readDirSync(this.#directory)].map(({ name }) => name)
      .filter((name) => !["calls", "go"].includes(name)).sort();
  }

  /** Builds, to the end. */
  async run(stop = new AbortController().signal): Promise<string | undefined> {
    const { ended } = await startGoPlugins(stop, this.build);
    return await ended;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.#directory, { recursive: true });
  }
}

const INSTALL = 'mkdir -p "$GOBIN" && touch "$GOBIN/host-local"';

Deno.test("startGoPlugins() builds once", async () => {
  using files = new Files(INSTALL);
  assertEquals(await files.run(), undefined);
  assertEquals(files.list(), ["v1", "v1.lock"]);
  const path = `${files.build.directory}/host-local`;
  assertEquals((await Deno.stat(path)).isFile, true);
  assertEquals(await files.run(), undefined);
  assertEquals(files.calls(), ["list", "install", "install"]);
});

Deno.test("startGoPlugins() waits for another build of the directory", async () => {
  using files = new Files(INSTALL);
  const ran = await Promise.all([files.run(), files.run(), files.run()]);
  assertEquals(ran, [undefined, undefined, undefined]);
  assertEquals(files.calls(), ["list", "install", "install"]);
});

Deno.test("startGoPlugins() holds the lock when it returns", async () => {
  using files = new Files("exec sleep 600");
  const stop = new AbortController();
  const { ended } = await startGoPlugins(stop.signal, files.build);
  const flock = new Deno.Command("flock", {
    args: ["--nonblock", "--shared", lockOf(files.build.directory), "true"],
  });
  assertEquals((await flock.output()).code, 1);
  stop.abort();
  await ended;
  assertEquals((await flock.output()).code, 0);
});

Deno.test("startGoPlugins() waits for the build that it comes after", async () => {
  using files = new Files(INSTALL);
  const earlier = Promise.withResolvers<void>();
  const build = { ...files.build, after: earlier.promise };
  const { signal } = new AbortController();
  const { ended } = await startGoPlugins(signal, build);
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(files.list(), ["v1.lock"]);
  assertThrows(() => files.calls(), Deno.errors.NotFound);
  earlier.resolve();
  assertEquals(await ended, undefined);
  assertEquals(files.calls(), ["list", "install", "install"]);
});

Deno.test("startGoPlugins() says why it has no plugins", async (t) => {
  await t.step("the build fails", async () => {
    using files = new Files(`${INSTALL}; echo no space >&2; exit 1`);
    assertStringIncludes(await files.run() ?? "", "no space");
    assertEquals(files.list(), ["v1.lock", "v1.new"]);
  });
  await t.step("it was told to stop", async () => {
    using files = new Files("exec sleep 600");
    const stopped = AbortSignal.abort();
    assertStringIncludes(await files.run(stopped) ?? "", "ended early");
  });
  await t.step("go cannot be run", async () => {
    using files = new Files("");
    await Deno.chmod(files.build.go, 0o644);
    assertStringIncludes(await files.run() ?? "", "Permission denied");
  });
  await t.step("go is not installed", async () => {
    using files = new Files("");
    const { signal } = new AbortController();
    const build = { ...files.build, go: "go-of-nobody" };
    const { ended } = await startGoPlugins(signal, build);
    assertEquals(await ended, 'PATH has no "go-of-nobody"');
    assertEquals(files.list(), []);
  });
});

Deno.test("startGoPlugins() builds again after a failure", async () => {
  using files = new Files(`[ -e "$0.tried" ] || { touch "$0.tried"; exit 1; }
${INSTALL}`);
  assertStringIncludes(await files.run() ?? "", "go install");
  assertEquals(await files.run(), undefined);
});
