// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * Executables whose names are not a plugin's, as the Go plugins may have: behind
 * wrappers, as links, copies and hard links, and with another argv[0].
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path/posix";
import { BIN, needsBin } from "./_harness/executables.ts";
import { FakeDaemon } from "./_harness/unix_server.ts";
import { eachRow } from "./_harness/table.ts";

const ENV = {
  CNI_CONTAINERID: "pod-1",
  CNI_NETNS: "/proc/self/ns/net",
  CNI_NETNS_OVERRIDE: "1",
  CNI_IFNAME: "eth0",
  CNI_PATH: "/nonexistent",
  PATH: "/usr/bin:/bin",
};

/** How an executable in a directory is called. */
interface Way {
  readonly make: (directory: string) => void;
  /** The file to run; `run` by default. */
  readonly file?: string;
  /** The configuration's type; `static` by default. */
  readonly type?: string;
}

/** Writes a script, which is `run`. */
function script(command: string, file = "run"): (directory: string) => void {
  return (directory) =>
    Deno.writeTextFileSync(
      join(directory, file),
      `#!/bin/bash\nhere=\${0%/*}\n${command}\n`,
      { mode: 0o755 },
    );
}

const copy = (name: string) => (directory: string): void =>
  Deno.copyFileSync(`${BIN}/cni`, join(directory, name));
const link = (target: string, name: string) => (directory: string): void =>
  Deno.symlinkSync(target, join(directory, name));
const all =
  (...makers: ((directory: string) => void)[]) => (directory: string): void => {
    for (const make of makers) make(directory);
  };

const WAYS: Readonly<Record<string, Way>> = {
  "a wrapper of static.bin, a link": {
    make: all(
      link(`${BIN}/cni`, "static.bin"),
      script('exec "$here/static.bin"'),
    ),
  },
  "a wrapper of static.bin, a link to a plugin": {
    make: all(
      link(`${BIN}/static`, "static.bin"),
      script('exec "$0.bin"', "static"),
    ),
    file: "static",
  },
  "a copy, cnv-static": {
    make: copy("cnv-static"),
    file: "cnv-static",
    type: "cnv-static",
  },
  "a hard link": {
    make: all(
      copy("cni"),
      (directory) =>
        Deno.linkSync(join(directory, "cni"), join(directory, "static-1.9.1")),
    ),
    file: "static-1.9.1",
    type: "static-1.9.1",
  },
  "a link of any name to a plugin's": {
    make: all(
      link("static", "one"),
      link("two", "run"),
      link("one", "two"),
      link(`${BIN}/cni`, "static"),
    ),
    type: "run",
  },
  "exec -a": { make: script(`exec -a any ${BIN}/static`), type: "any" },
  "exec -a, of a relative path": {
    make: script(`cd ${BIN} && exec -a any ./static`),
    type: "any",
  },
  "exec -a, of bytes that are not UTF-8": {
    make: script(`exec -a $'\\377' ${BIN}/static`),
    type: "any",
  },
  "a link in a directory whose name is not UTF-8": {
    make: script(
      `mkdir $here/$'\\377' && ln -s ${BIN}/cni $here/$'\\377/static' && ` +
        `exec $here/$'\\377/static'`,
    ),
    type: "any",
  },
  "a copy whose name is not UTF-8": {
    make: all(
      copy("cni"),
      script(
        "mv $here/cni $here/$'\\377.static' && exec $here/$'\\377.static'",
      ),
    ),
    type: "any",
  },
  "a name that says nothing, behind a wrapper": {
    make: all(copy("real"), script('exec "$here/real"')),
  },
  "a name that says two, behind a wrapper": {
    make: all(
      link(`${BIN}/cni`, "ptp-static"),
      script('exec "$here/ptp-static"'),
    ),
  },
};

/** Runs a call in a directory of its own. */
async function call(
  { make, file = "run", type = "static" }: Way,
  command: string,
  more: object = {},
): Promise<{ code: number; json: Record<string, unknown> }> {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  try {
    make(directory);
    const config = {
      cniVersion: "1.0.0",
      name: "net",
      type,
      ipam: { type: "static", addresses: [{ address: "10.9.8.7/24" }] },
      ...more,
    };
    const child = new Deno.Command(join(directory, file), {
      env: { ...ENV, CNI_COMMAND: command },
      clearEnv: true,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const input = command === "VERSION" ? { cniVersion: "1.0.0" } : config;
    const body = new Response(JSON.stringify(input)).body;
    const [, { code, stdout }] = await Promise.all([
      body?.pipeTo(child.stdin).catch(() => {}),
      child.output(),
    ]);
    return { code, json: JSON.parse(new TextDecoder().decode(stdout) || "{}") };
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test(
  {
    name: `a renamed executable runs its plugin${needsBin.suffix}`,
    ignore: needsBin.ignore,
  },
  async (t) => {
    await eachRow(t, Object.entries(WAYS), async ([, way]) => {
      const added = await call(way, "ADD");
      assertEquals(added.code, 0, JSON.stringify(added.json));
      assertStringIncludes(JSON.stringify(added.json), "10.9.8.7/24");
      assertEquals((await call(way, "DEL")).code, 0);
      const { code, json } = await call(way, "VERSION");
      assertEquals(code, 0);
      assertStringIncludes(JSON.stringify(json), '"1.1.0"');
    });
  },
);

Deno.test(
  {
    name:
      `the node daemon runs the plugin of a renamed executable${needsBin.suffix}`,
    ignore: needsBin.ignore,
  },
  async (t) => {
    await eachRow(t, Object.entries(WAYS), async ([, way]) => {
      await using daemon: FakeDaemon = new FakeDaemon(
        ({ say }) =>
          daemon.requests.at(-1)?.name === "static"
            ? say("taken", { stdout: '{"by": "daemon"}', exitCode: 0 })
            : say({ declined: "no such plugin" }),
        { isTaken: false },
      );
      const { json } = await call(way, "ADD", { daemonSocket: daemon.path });
      assertEquals(json, { by: "daemon" });
    });
  },
);

Deno.test(
  {
    name:
      `an executable with an ambiguous or unknown name reports what to do${needsBin.suffix}`,
    ignore: needsBin.ignore,
  },
  async () => {
    const two = await call({
      make: link(`${BIN}/cni`, "ptp-static"),
      file: "ptp-static",
      type: "ptp-static",
    }, "ADD");
    assertEquals([two.code, two.json["code"]], [1, 4]);
    assertEquals(two.json["msg"], 'no plugin is named "ptp-static"');
    assertEquals(
      two.json["details"],
      "it contains the names of ptp and static; use one of them",
    );
    const none = await call({ make: copy("run"), type: "run" }, "ADD");
    assertEquals(none.json["msg"], 'no plugin is named "run"');
    assertStringIncludes(String(none.json["details"]), "such as bridge.bin");
    const notText = await call({
      make: script(`exec -a $'\\377' ${BIN}/cni`),
      type: "any",
    }, "ADD");
    assertEquals([notText.code, notText.json["code"]], [1, 4]);
    assertEquals(notText.json["msg"], 'no plugin is named "?"');
  },
);
