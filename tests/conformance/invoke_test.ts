import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertThrows,
} from "@std/assert";
import { CniError, toCniError } from "../../base/error.ts";
import type { DelegatedPlugin } from "../../cni/invoke/delegate.ts";
import { findExecutable, splitPath } from "../../cni/invoke/find.ts";
import { runtimeEnv } from "../../cni/invoke/runtime_env.ts";
import { conformance } from "../_harness/conformance.ts";
import { PluginDirectory } from "../_harness/plugin_directory.ts";
import {
  callerEnv,
  Delegation,
  parseEnv,
  PATH,
  PRINT_ENV,
  run,
  TELL,
  TRACE,
} from "./script_plugins.ts";

const RUNTIME_ARGS = {
  command: "ADD",
  containerId: "some-container-id",
  netns: "/some/netns/path",
  ifName: "eth7",
  args: [["KEY", "VALUE"], ["KEY2", "VALUE2"]],
  path: "/some/cni/path",
} as const;

conformance("invoke env", {
  "all six variables replace the process's own": async () => {
    const base = callerEnv("/own/path", "DEL");
    const env = runtimeEnv(RUNTIME_ARGS, base);
    const seen = parseEnv(await run(PRINT_ENV, { env }));
    assertEquals(seen, {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "some-container-id",
      CNI_NETNS: "/some/netns/path",
      CNI_IFNAME: "eth7",
      CNI_ARGS: "KEY=VALUE;KEY2=VALUE2",
      CNI_PATH: "/some/cni/path",
      PATH,
      ...TRACE,
    });
  },
  "overriding leaves the number of variables as it is": () => {
    const base = callerEnv("/own/path");
    const env = runtimeEnv(RUNTIME_ARGS, base);
    assertEquals(Object.keys(env).length, Object.keys(base).length);
  },
  "all six are set, if need be to nothing": async () => {
    const env = runtimeEnv({ command: "GC", path: "/p" }, { PATH });
    assertEquals(parseEnv(await run(PRINT_ENV, { env })), {
      CNI_COMMAND: "GC",
      CNI_CONTAINERID: "",
      CNI_NETNS: "",
      CNI_IFNAME: "",
      CNI_ARGS: "",
      CNI_PATH: "/p",
      PATH,
    });
  },
  "a text of CNI_ARGS is taken as it is": () => {
    const env = runtimeEnv({ command: "ADD", args: "odd;=text" }, {});
    assertEquals(env["CNI_ARGS"], "odd;=text");
  },
  "a delegate's environment differs in CNI_COMMAND alone": async () => {
    using delegation = new Delegation(`${PRINT_ENV} >&2`, "ADD");
    await delegation.to("noop").del();
    const [seen = ""] = delegation.log;
    assertEquals(parseEnv(seen), { ...delegation.env, CNI_COMMAND: "DEL" });
  },
  "a delegate gets CNI_COMMAND if the caller has none": async () => {
    using delegation = new Delegation(`${PRINT_ENV} >&2`);
    delete delegation.env["CNI_COMMAND"];
    await delegation.to("noop").check();
    const [seen = ""] = delegation.log;
    assertEquals(parseEnv(seen), { ...delegation.env, CNI_COMMAND: "CHECK" });
  },
  "an environment that is handed on is inherited as a whole": async () => {
    const env = { PATH, EMPTY: "", "odd name": "a=b;\n" };
    assertEquals(parseEnv(await run(PRINT_ENV, { env })), env);
  },
});

/** Looks for a plugin in two directories. */
function find(
  type: string,
  prepare: (first: PluginDirectory, second: PluginDirectory) => unknown,
): string {
  using first = new PluginDirectory();
  using second = new PluginDirectory();
  prepare(first, second);
  return findExecutable(type, [first.path, second.path])
    .replace(first.path, "/first").replace(second.path, "/second");
}

conformance("invoke find", {
  "the second directory is searched": () =>
    assertEquals(find("p", (_, second) => second.add("p", "")), "/second/p"),
  "the first directory takes precedence": () => {
    const found = find("p", (first, second) => {
      first.add("p", "");
      second.add("p", "");
    });
    assertEquals(found, "/first/p");
  },
  "a name with an extension is a name": () =>
    assertEquals(
      find("p.exe", (first) => first.add("p.exe", "")),
      "/first/p.exe",
    ),
  "no extension is added to a name": () => {
    assertThrows(() => find("p", (first) => first.add("p.exe", "")), CniError);
  },
  "no directories": () => {
    const error = assertThrows(() => findExecutable("p", []), CniError);
    assertEquals(error.message, "no paths provided");
  },
  "no name": () => {
    const error = assertThrows(() => findExecutable("", ["/bin"]), CniError);
    assertEquals(error.message, "no plugin name provided");
  },
  "the message for a missing plugin": () => {
    const error = assertThrows(
      () => findExecutable("p", ["/a", "/b"]),
      CniError,
    );
    assertEquals(error.message, 'failed to find plugin "p" in path [/a /b]');
  },
  "a name with a separator is refused": () => {
    for (const name of ["../p", "a/b", "/bin/sh", "p/"]) {
      const error = assertThrows(
        () => findExecutable(name, ["/bin"]),
        CniError,
      );
      assertEquals(error.message, `invalid plugin name: ${name}`);
    }
  },
  "a directory of that name is passed over": () => {
    const found = find("p", (first, second) => {
      Deno.mkdirSync(`${first.path}/p`);
      second.add("p", "");
    });
    assertEquals(found, "/second/p");
  },
  "a missing directory of the path is skipped": () => {
    using directory = new PluginDirectory();
    const path = directory.add("p", "");
    assertEquals(findExecutable("p", ["/nonexistent", directory.path]), path);
  },
  "a symbolic link to a file is a file": () => {
    const found = find("p", (first, second) => {
      Deno.symlinkSync(second.add("q", ""), `${first.path}/p`);
    });
    assertEquals(found, "/first/p");
  },
  "an empty element is not the current directory": () => {
    using directory = new PluginDirectory();
    directory.add("p", "");
    const before = Deno.cwd();
    Deno.chdir(directory.path);
    try {
      assertEquals(splitPath("::/nonexistent:"), ["/nonexistent"]);
      assertThrows(() => findExecutable("p", splitPath(":")), CniError);
    } finally {
      Deno.chdir(before);
    }
  },
});

/** Checks that a delegate runs the plugin with its command. */
async function checkRuns(
  command: string,
  run: (delegate: DelegatedPlugin) => Promise<unknown>,
): Promise<void> {
  for (const own of [command, "ADD", "DEL"]) {
    using delegation = new Delegation(`${TELL}; echo {}`, own);
    const before = { ...delegation.env };
    await run(delegation.to("noop"));
    assertEquals(delegation.log, [`${command} eth7\n`]);
    assertEquals(delegation.env, before);
  }
}

/** Checks what is said of a plugin that is not there. */
async function checkMissing(
  run: (delegate: DelegatedPlugin) => Promise<unknown>,
): Promise<void> {
  using delegation = new Delegation("");
  const error = await assertRejects(() => run(delegation.to("absent")));
  assertMatch(
    toCniError(error).message,
    /^failed to find plugin "absent" in path \[\/nonexistent /,
  );
}

conformance("invoke delegate", {
  "ADD finds and runs the plugin, whatever the caller's command": () =>
    checkRuns("ADD", (delegate) => delegate.add()),
  "CHECK finds and runs the plugin, whatever the caller's command": () =>
    checkRuns("CHECK", (delegate) => delegate.check()),
  "DEL finds and runs the plugin, whatever the caller's command": () =>
    checkRuns("DEL", (delegate) => delegate.del()),
  "STATUS finds and runs the plugin, whatever the caller's command": () =>
    checkRuns("STATUS", (delegate) => delegate.status()),
  "GC finds and runs the plugin, whatever the caller's command": () =>
    checkRuns("GC", (delegate) => delegate.gc()),
  "ADD of a missing plugin": () => checkMissing((delegate) => delegate.add()),
  "CHECK of a missing plugin": () =>
    checkMissing((delegate) => delegate.check()),
  "DEL of a missing plugin": () => checkMissing((delegate) => delegate.del()),
  "STATUS of a missing plugin": () =>
    checkMissing((delegate) => delegate.status()),
  "GC of a missing plugin": () => checkMissing((delegate) => delegate.gc()),
  "the process's own environment stays as it is": async () => {
    const before = Deno.env.toObject();
    using delegation = new Delegation("echo {}");
    await delegation.to("noop").add();
    assertEquals(Deno.env.toObject(), before);
  },
  "an ADD that fails is not followed by DEL": async () => {
    using delegation = new Delegation(
      `${TELL}; echo '{"code":11,"msg":"later"}'; exit 1`,
    );
    await assertRejects(() => delegation.to("noop").add());
    assertEquals(delegation.log, ["ADD eth7\n"]);
  },
});
