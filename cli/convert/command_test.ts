// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { parseWritten } from "../node/chain_form.ts";
import { convert, findHiddenFromPodman } from "./command.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { callWith, runCni } from "../../tests/_harness/tool_call.ts";

const PLUGINS = [{ type: "ptp" }, { type: "sbr", x: 1 }];
const LIST = { cniVersion: "1.1.0", name: "pods", plugins: PLUGINS };
const CHAIN = { ...LIST, plugins: [{ type: "chain", plugins: PLUGINS }] };

/** A directory with a configuration, and one with the plugin chain. */
class Place implements Disposable {
  readonly directory: PluginDirectory = new PluginDirectory();
  readonly bin: PluginDirectory = new PluginDirectory();
  readonly file: string;

  constructor(name = "10-pods.conflist", content: unknown = LIST) {
    this.file = this.directory.addFile(name, JSON.stringify(content), 0o640);
    this.bin.add("chain", "");
  }

  /** Runs the tool on the file. */
  async convert(...args: string[]): ReturnType<typeof runCni> {
    return await runCni(
      "convert",
      this.file,
      "--cni-path",
      this.bin.path,
      ...args,
    );
  }

  read(name: string): string {
    return Deno.readTextFileSync(`${this.directory.path}/${name}`);
  }

  list(): string[] {
    return [...Deno.readDirSync(this.directory.path)].map(({ name }) => name)
      .sort();
  }

  [Symbol.dispose](): void {
    this.directory[Symbol.dispose]();
    this.bin[Symbol.dispose]();
  }
}

function print(document: object): string {
  return JSON.stringify(document, null, 2) + "\n";
}

Deno.test("convert prints the other form, indented by 2", async () => {
  using place = new Place();
  const quiet = { exitCode: 0, stderr: "" };
  assertEquals(await place.convert(), { ...quiet, stdout: print(CHAIN) });
  assertEquals(
    await place.convert("--output", "-"),
    { ...quiet, stdout: print(CHAIN) },
  );
  const { stdout } = await place.convert("--json");
  assertEquals(JSON.parse(stdout), CHAIN);
  assertEquals(place.read("10-pods.conflist"), JSON.stringify(LIST));
});

Deno.test("convert --write replaces the file and keeps its mode and links", async () => {
  using place = new Place();
  const link = `${place.directory.path}/link.conflist`;
  Deno.symlinkSync(place.file, link);
  using linked = new Place();
  Deno.removeSync(linked.file);
  Deno.symlinkSync(place.file, linked.file);
  const { stdout, exitCode } = await linked.convert("--write");
  assertEquals(exitCode, 0);
  assertEquals(stdout, `${linked.file} runs chain(ptp, sbr) now\n`);
  assertEquals(place.read("10-pods.conflist"), print(CHAIN));
  assertEquals((Deno.statSync(place.file).mode ?? 0) & 0o777, 0o640);
  assertEquals(Deno.lstatSync(linked.file).isSymlink, true);
  assertEquals(place.list(), ["10-pods.conflist", "link.conflist"]);
});

Deno.test("convert --to is idempotent, and writes nothing the second time", async () => {
  using place = new Place();
  await place.convert("--to", "chain", "--write");
  const { ino } = Deno.statSync(place.file);
  const { stdout } = await place.convert("--to", "chain", "--write", "--json");
  assertEquals(JSON.parse(stdout), {
    file: place.file,
    form: "chain",
    plugins: ["ptp", "sbr"],
  });
  assertEquals(Deno.statSync(place.file).ino, ino);
  await place.convert("--to", "list", "--write");
  assertEquals(place.read("10-pods.conflist"), print(LIST));
});

const SOCKET = { daemonSocket: "/run/cni/daemon.sock" };
const UNNECESSARY =
  "The key daemonSocket is unnecessary: plugins whose configuration names no socket use " +
  '"/run/cni/daemon.sock"\n';
const FOREIGN = { type: "cilium-cni" };
const SERVED = {
  ...LIST,
  plugins: [...PLUGINS.map((plugin) => ({ ...plugin, ...SOCKET })), FOREIGN],
};

Deno.test("convert --daemon sets the socket of this project's plugins, and --no-daemon removes it", async () => {
  const list = { ...LIST, plugins: [...PLUGINS, FOREIGN] };
  using place = new Place("10-pods.conflist", list);
  const said = `${place.file} runs ptp, sbr, cilium-cni`;
  const { stdout: first } = await place.convert("--daemon", "--write");
  assertEquals(first, `${said} with the node daemon now\n`);
  assertEquals(place.read("10-pods.conflist"), print(SERVED));
  const { ino } = Deno.statSync(place.file);
  const { stdout: again } = await place.convert("--daemon", "--write");
  assertEquals(again, `${said} with the node daemon already\n`);
  assertEquals(Deno.statSync(place.file).ino, ino);
  const { stdout: last } = await place.convert("--no-daemon", "--write");
  assertEquals(last, `${said} without the node daemon now\n`);
  assertEquals(place.read("10-pods.conflist"), print(list));
  assertEquals((await place.convert("--no-daemon")).stdout, print(list));
});

Deno.test("convert --daemon and --no-daemon replace every spelling of the key", async () => {
  const plugins = [
    { type: "ptp", DaemonSocket: "/run/a.sock", DAEMONSOCKET: "/run/b.sock" },
  ];
  using place = new Place("10-pods.conflist", { ...LIST, plugins });
  const converted = async (...flags: string[]) =>
    JSON.parse((await place.convert(...flags)).stdout).plugins;
  assertEquals(await converted("--no-daemon"), [{ type: "ptp" }]);
  assertEquals(await converted("--daemon"), [{ type: "ptp", ...SOCKET }]);
});

Deno.test("convert --daemon names Go plugins, which do not use the daemon", async () => {
  using place = new Place();
  // What a Go program begins with.
  const path = place.bin.addFile("ptp", "\x7fELF Go\0\0");
  place.bin.addOwnExecutable("sbr");
  assertEquals(
    (await place.convert("--daemon", "--write")).stderr,
    UNNECESSARY +
      `"${path}" is built by Go and does not use the daemon: run cni install ` +
      `${place.bin.path} --only ptp\n`,
  );
  assertEquals((await place.convert("--no-daemon", "--write")).stderr, "");
  const { stderr } = await place.convert("--to", "chain", "--daemon");
  assertEquals(stderr, UNNECESSARY);
});

Deno.test("convert moves the socket from the plugins to the chain, and back", async () => {
  using place = new Place();
  const chain = {
    ...LIST,
    plugins: [{ type: "chain", plugins: PLUGINS, ...SOCKET }],
  };
  await place.convert("--to", "chain", "--daemon", "--write");
  assertEquals(place.read("10-pods.conflist"), print(chain));
  await place.convert("--write");
  const plugins = PLUGINS.map((plugin) => ({ ...plugin, ...SOCKET }));
  assertEquals(place.read("10-pods.conflist"), print({ ...LIST, plugins }));
  await place.convert("--write");
  assertEquals(place.read("10-pods.conflist"), print(chain));
  await place.convert("--no-daemon", "--write");
  assertEquals(place.read("10-pods.conflist"), print(CHAIN));
});

Deno.test("convert takes only one of --daemon and --no-daemon", async () => {
  using place = new Place();
  const { exitCode, stderr, stdout } = await place.convert(
    "--daemon",
    "--no-daemon",
  );
  assertEquals([exitCode, stdout], [1, ""]);
  assertMatch(stderr, /^Cannot run "cni convert": --daemon and --no-daemon /);
});

Deno.test("convert notes that a chain of one plugin saves nothing", async () => {
  const list = { ...LIST, plugins: PLUGINS.slice(0, 1) };
  using place = new Place("10-pods.conflist", list);
  const { stdout, stderr } = await place.convert("--write");
  assertEquals(stdout, `${place.file} runs chain(ptp) now\n`);
  assertStringIncludes(
    stderr,
    "A chain with one plugin starts as many processes",
  );
  assertEquals((await place.convert("--write")).stderr, "");
  assertEquals(place.read("10-pods.conflist"), print(list));
});

Deno.test("convert --output writes a different file, and mentions an input in the same directory", async () => {
  using place = new Place();
  const output = `${place.directory.path}/new.conflist`;
  const { stdout, stderr } = await place.convert("--output", output);
  assertEquals(stdout, `${output} runs chain(ptp, sbr) now\n`);
  assertStringIncludes(stderr, `"${place.file}" still exists`);
  assertEquals(place.read("new.conflist"), print(CHAIN));
  assertEquals((Deno.statSync(output).mode ?? 0) & 0o777, 0o644);
  assertEquals(place.read("10-pods.conflist"), JSON.stringify(LIST));
});

Deno.test("convert notes what runtimes do differently with a chain", async (t) => {
  await t.step("no plugin chain", async () => {
    using place = new Place();
    Deno.removeSync(`${place.bin.path}/chain`);
    const { stderr } = await place.convert();
    assertStringIncludes(stderr, 'failed to find plugin "chain" in path');
    assertEquals((await place.convert("--to", "list")).stderr, "");
  });
  await t.step("a network of podman", async () => {
    const args = { podman_labels: {} };
    using place = new Place("1.conflist", { ...LIST, args });
    const { stderr, exitCode } = await place.convert();
    assertStringIncludes(
      stderr,
      'podman cannot see inside the chain of "pods"',
    );
    assertEquals([exitCode, stderr.split("\n").length], [0, 2], stderr);
    assertEquals((await place.convert("--to", "list")).stderr, "");
  });
  await eachRow(t, [false, true], async (loadOnlyInlinedPlugins) => {
    using place = new Place("1.conflist", { ...LIST, loadOnlyInlinedPlugins });
    Deno.mkdirSync(`${place.directory.path}/pods`);
    place.directory.addFile("pods/1.conf", '{"type":"a"}');
    const { stderr } = await place.convert();
    assertEquals(
      stderr.includes("are not part of the chain"),
      !loadOnlyInlinedPlugins,
    );
  }, (loadOnlyInlinedPlugins) => `plugins in files, ${loadOnlyInlinedPlugins}`);
});

Deno.test("convert refuses unusable arguments", async (t) => {
  const bare = { cniVersion: "1.0.0", name: "n", type: "ptp" };
  const rows: [string, [name: string, content: unknown], string[], string][] = [
    [
      "no such form",
      ["a.conflist", LIST],
      ["--to", "x"],
      "--to must be chain or list",
    ],
    [
      "two targets",
      ["a.conflist", LIST],
      ["--write", "--output", "x"],
      "--write names a different file than --output",
    ],
    [
      "a list where a bare plugin is expected",
      ["a.conf", bare],
      ["--write"],
      "runtimes expect lists in *.conflist",
    ],
    [
      "another such name",
      ["a.conflist", LIST],
      ["--output", "/nonexistent/a.json"],
      "runtimes expect lists in *.conflist",
    ],
    [
      "what cannot be converted",
      ["a.conflist", { name: "n", plugins: [{}] }],
      ["--write"],
      'a.conflist": failed to parse plugin config 0',
    ],
  ];
  await eachRow(t, rows, async ([, [file, content], args, problem]) => {
    using place = new Place(file, content);
    const { exitCode, stdout, stderr } = await place.convert(...args);
    assertEquals([exitCode, stdout], [1, ""]);
    assertStringIncludes(stderr, problem);
    assertEquals(place.read(file), JSON.stringify(content));
    assertEquals(place.list(), [file]);
  });
});

Deno.test("convert --output refuses the file itself, by any path", async () => {
  using place = new Place();
  const same = `${place.directory.path}/./10-pods.conflist`;
  const { exitCode, stderr } = await place.convert("--output", same);
  assertEquals(exitCode, 1);
  assertStringIncludes(stderr, "use --write");
});

Deno.test("convert reports files that it cannot read or write", async () => {
  using place = new Place();
  const output = `${place.file}/x.conflist`;
  const written = await place.convert("--output", output, "--json");
  assertEquals(JSON.parse(written.stdout).code, 5);
  const missing = `${place.directory.path}/a/b`;
  const typed = await place.convert("--output", `${missing}/x.conflist`);
  assertStringIncludes(typed.stderr, `directory "${missing}" does not exist`);
  assertEquals(place.list(), ["10-pods.conflist"]);
  Deno.removeSync(place.file);
  const { stderr } = await place.convert();
  assertStringIncludes(stderr, `Cannot read "${place.file}"`);
});

Deno.test("convert accepts the name of a network", async () => {
  using place = new Place();
  const run = (name: string): ReturnType<typeof runCni> =>
    runCni("convert", name, `--conf-dir=${place.directory.path}`);
  assertEquals((await run("pods")).stdout, print(CHAIN));
  const unknown = await run("podz");
  assertEquals(unknown.exitCode, 1);
  assertStringIncludes(unknown.stderr, '; did you mean "pods"?');
});

const BRIDGE = { type: "bridge", bridge: "cni-podman1", isGateway: true };
const OTHER = { type: "bridge", bridge: "cni0" };
const CHAINED = [{ type: "chain", plugins: [OTHER, { type: "sbr" }] }];

Deno.test("findHiddenFromPodman() warns about podman's networks if a chain comes first", async (t) => {
  const labels = { podman_labels: { app: "web" } };
  const rows: [name: string, document: object, isHidden: boolean][] = [
    ["labels", { args: labels, plugins: CHAINED }, true],
    ["options", { args: { podman_options: {} }, plugins: CHAINED }, true],
    [
      "the bridge's name",
      { plugins: [{ type: "chain", plugins: [BRIDGE, OTHER] }] },
      true,
    ],
    [
      "the bridge's name, with its key in another case",
      {
        plugins: [{
          type: "chain",
          plugins: [{ type: "bridge", Bridge: "cni-podman1" }],
        }],
      },
      true,
    ],
    ["no mark", { args: { cni: {} }, plugins: CHAINED }, false],
    [
      "a bridge that is only called alike",
      {
        plugins: [{
          type: "chain",
          plugins: [{ ...BRIDGE, bridge: "cni-podmanX" }],
        }],
      },
      false,
    ],
    ["a chain behind the first", {
      args: labels,
      plugins: [BRIDGE, ...CHAINED],
    }, false],
    ["no chain", { args: labels, plugins: [BRIDGE] }, false],
  ];
  await eachRow(t, rows, ([, document, isHidden]) => {
    const text = JSON.stringify({ name: "web", ...document });
    const network = parseWritten(new TextEncoder().encode(text));
    assertEquals(findHiddenFromPodman(network) !== undefined, isHidden);
  });
});

Deno.test("convert reads stdin and shows differences", () => {
  const list = JSON.stringify(
    { cniVersion: "1.0.0", name: "n", plugins: [{ type: "ptp" }] },
    null,
    2,
  );
  const stdin = (): Uint8Array => new TextEncoder().encode(list);
  const call = callWith({ args: ["-"], flags: { to: "chain", diff: true } });
  const { json } = convert(call, stdin);
  const { changed, lines } = json as {
    changed: boolean;
    lines: { mark: string; line: string }[];
  };
  assertEquals(changed, true);
  const added = lines.filter(({ mark }) => mark === "+");
  assertEquals(added[0]?.line.trim(), '"type": "chain",');
  const same = convert(
    callWith({ args: ["-"], flags: { to: "list", diff: true } }),
    stdin,
  );
  assertEquals((same.json as { changed: boolean }).changed, false);
});

Deno.test("convert takes several files and directories", async () => {
  using directory = new PluginDirectory();
  const list = (name: string): string =>
    JSON.stringify({
      cniVersion: "1.0.0",
      name,
      plugins: [{ type: "ptp", ipam: { type: "static" } }, { type: "tuning" }],
    });
  const files = ["a", "b"].map((name) =>
    directory.addFile(`${name}.conflist`, list(name))
  );
  directory.addFile("broken.conflist", "{");
  const flags = ["--to", "chain", "--cni-path=/dev/null"];
  const several = await runCni("convert", ...flags, ...files);
  assertStringIncludes(several.stderr, "use --diff or --write for several");
  const one = await runCni(
    ...["convert", ...flags, "--write", "--output", "x", ...files],
  );
  assertStringIncludes(one.stderr, "--output takes one file");
  const { stdout, stderr, exitCode } = await runCni(
    ...["convert", ...flags, "--write", `${directory.path}/`],
  );
  assertEquals(
    stdout.replaceAll(directory.path, ""),
    "/a.conflist runs chain(ptp, tuning) now\n" +
      "/b.conflist runs chain(ptp, tuning) now\n",
  );
  assertStringIncludes(stderr, "broken.conflist");
  assertEquals(exitCode, 1);
  const again = await runCni("convert", "--to", "list", "--diff", ...files);
  assertEquals(again.exitCode, 0);
});
