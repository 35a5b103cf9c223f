import { assert, assertEquals, assertThrows } from "@std/assert";
import { needsOtherUser, OTHER_UID } from "../../tests/_harness/other_user.ts";
import { replaceGivenFile } from "./given_file.ts";

/** Directories of root and of another user. */
class Scene implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly theirs = `${this.path}/theirs`;
  readonly secret = `${this.path}/own/secret`;

  /** Creates them, and root's file, which must stay. */
  constructor() {
    Deno.mkdirSync(`${this.path}/own`);
    Deno.mkdirSync(this.theirs);
    Deno.writeTextFileSync(this.secret, "secret", { mode: 0o600 });
    this.give(this.theirs);
  }

  /** Makes the other user the owner of a file or link. */
  give(path: string): void {
    new Deno.Command("chown", { args: ["-h", `${OTHER_UID}`, path] })
      .outputSync();
  }

  /** Makes a link of the other user. */
  link(target: string, path: string): void {
    Deno.symlinkSync(target, path);
    this.give(path);
  }

  /** Lists a directory. */
  list(directory: string): string[] {
    return [...Deno.readDirSync(directory)].map(({ name }) => name).toSorted();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

function write(path: string): void {
  replaceGivenFile(path, new TextEncoder().encode("new"));
}

function modeOf(path: string): number {
  return (Deno.statSync(path).mode ?? 0) & 0o777;
}

function test(name: string, fn: (scene: Scene) => void): void {
  const { ignore, suffix } = needsOtherUser;
  Deno.test({
    name: `replaceGivenFile() ${name}${suffix}`,
    ignore,
    fn(): void {
      using scene = new Scene();
      fn(scene);
    },
  });
}

test("follows no link that another user has put there", (scene) => {
  const { path, theirs, secret } = scene;
  const shared = `${path}/shared`, sticky = `${path}/sticky`;
  for (
    const [directory, mode] of [[shared, 0o777], [sticky, 0o1777]] as const
  ) {
    Deno.mkdirSync(directory);
    Deno.chmodSync(directory, mode);
    scene.link("../own", `${directory}/link`);
    scene.link("../own/secret", `${directory}/file`);
  }
  scene.link("../own/secret", `${theirs}/file`);
  scene.link(`${path}/own`, `${theirs}/link`);
  scene.link("../own/none", `${theirs}/new`);
  for (const directory of [theirs, shared, sticky]) {
    for (const name of ["file", "link/secret", "link/new"]) {
      const error = assertThrows(() => write(`${directory}/${name}`), Error);
      const [link] = name.split("/");
      assertEquals(
        error.message,
        `"${directory}/${link}" is a link of user ${OTHER_UID}`,
      );
    }
  }
  assertThrows(() => write(`${theirs}/new`), Error, "is a link of user");
  assertEquals(scene.list(`${path}/own`), ["secret"]);
  assertEquals(Deno.readTextFileSync(secret), "secret");
});

test("writes into another user's directory, as its own file", (scene) => {
  const file = `${scene.theirs}/cni.prom`;
  write(file);
  assertEquals([Deno.readTextFileSync(file), modeOf(file)], ["new", 0o644]);
  Deno.chmodSync(file, 0o640);
  write(file);
  assertEquals(modeOf(file), 0o640);
  // A file of theirs, and its mode, are replaced.
  Deno.chmodSync(file, 0o777);
  scene.give(file);
  write(file);
  assertEquals([Deno.statSync(file).uid, modeOf(file)], [Deno.uid(), 0o644]);
  // What is there under a name that it could use is no way in.
  scene.link("../own/secret", `${scene.theirs}/.cni.prom.unfinished`);
  scene.link("../own", `${scene.theirs}/.unfinished`);
  write(file);
  assertEquals(Deno.readTextFileSync(scene.secret), "secret");
  assertEquals(scene.list(scene.theirs), [
    ".cni.prom.unfinished",
    ".unfinished",
    "cni.prom",
  ]);
});

test("follows links of root, and all where only root could put them", (scene) => {
  const { path, theirs, secret } = scene;
  Deno.symlinkSync("../own/secret", `${theirs}/file`);
  write(`${theirs}/file`);
  assertEquals([Deno.readTextFileSync(secret), modeOf(secret)], ["new", 0o600]);
  scene.link("secret", `${path}/own/link`);
  scene.link("own/../own/link", `${path}/link`);
  Deno.writeTextFileSync(secret, "old");
  write(`${path}/link`);
  assertEquals(Deno.readTextFileSync(secret), "new");
  assert(Deno.lstatSync(`${path}/own/link`).isSymlink);
});

test("leaves nothing where it fails", (scene) => {
  const { path } = scene;
  Deno.symlinkSync("loop", `${path}/own/loop`);
  for (const name of ["own", "own/", "own/loop", "own/secret/x", "none/x"]) {
    assertThrows(() => write(`${path}/${name}`), Error, "", name);
  }
  assertEquals(scene.list(`${path}/own`), ["loop", "secret"]);
  assertEquals(scene.list(path), ["own", "theirs"]);
});
