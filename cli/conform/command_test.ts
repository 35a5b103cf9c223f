/** `cni conform` names the defect of an executable that has one, and no other. */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { Interruption } from "../../base/command_line/interrupt.ts";
import jsonSchema from "./conform.schema.json" with {
  type: "json",
};
import { ifPossible } from "../../base/files/io.ts";
import { inNetns } from "../../ffi/netns.ts";
import { type Sandbox, ThrowAwayNode } from "../../testing/conform/place.ts";
import { type Needs, rootTest } from "../../testing/capabilities.ts";
import { BIN, needsBin } from "../../tests/_harness/executables.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { validate } from "../../tests/_harness/json_schema.ts";
import { needsLegacyIptables } from "../../tests/_harness/rules.ts";
import { runCni, runCniOn } from "../../tests/_harness/tool_call.ts";

/** A row of a report. */
interface Row {
  readonly id: string;
  readonly outcome: string;
  readonly why?: string;
  readonly shows?: readonly string[];
}

/** An executable: a script around one of ours, with a defect. */
interface Defect {
  readonly type: string;
  /** Source in sh. `$in` has stdin, and `run` runs the right plugin. */
  readonly script: string;
  /** The requirement that it breaks. */
  readonly breaks: string;
  /** A requirement near it, which it keeps. */
  readonly keeps: string;
  /** What the report says of it. */
  readonly why: RegExp;
  /** What the script needs. */
  readonly needs?: Needs;
}

const DEFECTS: Readonly<Record<string, Defect>> = {
  "a log line before the result": {
    type: "host-local",
    script:
      'test "$CNI_COMMAND" != ADD || echo "attaching $CNI_CONTAINERID"; run',
    breaks: "result-version",
    keeps: "version-answer",
    why: /has cniVersion undefined/,
  },
  "errors that exit with 0": {
    type: "host-local",
    script: "run; exit 0",
    breaks: "error-exit",
    keeps: "version-echo",
    why: /exit 0 with an unknown command/,
  },
  "errors on stderr": {
    type: "host-local",
    script: 'out=$(run) && printf %s "$out" || { echo "$out" >&2; exit 1; }',
    breaks: "error-document",
    keeps: "error-exit",
    why: /with an unknown command: exit 1/,
  },
  "its own version in VERSION": {
    type: "host-local",
    script: 'test "$CNI_COMMAND" != VERSION || in="{}"; run',
    breaks: "version-echo",
    keeps: "version-answer",
    why: /given 0.4.0, it returns 1.1.0/,
  },
  "a result of the wrong version": {
    type: "host-local",
    script: 'run | sed \'s/"version": "4",\\?//\'',
    breaks: "result-shape",
    keeps: "result-version",
    why: /ips\[0\] has no version/,
  },
  "a second DEL that fails": {
    type: "host-local",
    script: 'if [ "$CNI_COMMAND" = DEL ]; then\n' +
      "  mkdir /var/lib/deleted-$CNI_CONTAINERID || exit 1; fi; run",
    breaks: "del-twice",
    keeps: "error-document",
    why: /DEL failed: exit 1/,
  },
  "DEL that needs CNI_NETNS": {
    type: "host-local",
    script: 'test "$CNI_COMMAND$CNI_NETNS" != DEL || exit 1; run',
    breaks: "del-without-netns",
    keeps: "del",
    why: /DEL failed/,
  },
  "a file that DEL leaves": {
    type: "host-local",
    script: "test $CNI_COMMAND != ADD || " +
      "touch /var/lib/cni/left-$CNI_CONTAINERID; run",
    breaks: "del",
    keeps: "del-twice",
    why: /left: file \/var\/lib\/cni\/left-c2/,
  },
  "a rule of the legacy iptables that DEL leaves": {
    type: "host-local",
    script: "test $CNI_COMMAND != ADD || iptables-legacy -t nat " +
      "-A POSTROUTING -m comment --comment left-$CNI_CONTAINERID; run",
    breaks: "del",
    keeps: "del-twice",
    why: /left: iptables -A POSTROUTING -m comment --comment left-c2/,
    needs: needsLegacyIptables(),
  },
  "an address for all": {
    type: "host-local",
    script: 'if [ "$CNI_COMMAND" = ADD ]; then\n' +
      `  printf '{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.3/24"}]}'\n` +
      "else run; fi",
    breaks: "at-once",
    keeps: "del-twice",
    why: /10\.1\.2\.3\/24 was given twice/,
  },
  "CHECK that never fails": {
    type: "ptp",
    script: "test $CNI_COMMAND = CHECK || run",
    breaks: "check-address",
    keeps: "check",
    why: /CHECK succeeds although the address is missing/,
  },
  "CHECK that always fails": {
    type: "ptp",
    script: "test $CNI_COMMAND != CHECK || exit 1; run",
    breaks: "check",
    keeps: "del-twice",
    why: /CHECK failed: exit 1/,
  },
  "GC of everything": {
    type: "host-local",
    script: 'test "$CNI_COMMAND" != GC || rm -r /var/lib/cni/networks; run',
    breaks: "gc-keeps",
    keeps: "gc",
    why: /gone: file \/var\/lib\/cni\/networks\/net1/,
  },
  "GC that its IPAM plugin does not hear of": {
    type: "ptp",
    script: "test $CNI_COMMAND = GC || run",
    breaks: "ipam-gc",
    keeps: "gc",
    why: /it was not run/,
  },
  "STATUS that hangs, with a child": {
    type: "host-local",
    script: "test $CNI_COMMAND != STATUS || { sleep 600 & sleep 600; }; run",
    breaks: "status",
    keeps: "gc",
    why: /STATUS did not end in time, and was killed/,
  },
  "an interface that exists is taken": {
    type: "ptp",
    script: "test $CNI_COMMAND != ADD || " +
      "ip netns exec ${CNI_NETNS##*/} ip link del eth0 2> /dev/null; run",
    breaks: "ifname-taken",
    keeps: "add",
    why: /ADD succeeded although the interface exists/,
  },
  "a long container ID that is refused": {
    type: "host-local",
    script: "test ${#CNI_CONTAINERID} -lt 64 || exit 1; run",
    breaks: "long-names",
    keeps: "add",
    why: /ADD failed: exit 1/,
  },
  "a network name that becomes a path": {
    type: "host-local",
    script:
      'name=$(printf %s "$in" | sed \'s/.*"name":"\\([^"]*\\)".*/\\1/\')\n' +
      'mkdir -p "/var/lib/own/$name"; touch "/var/lib/own/$name/x"; run',
    breaks: "network-name",
    keeps: "input-syntax",
    why: /the refused ADD left: left: file/,
  },
};

/** Writes an executable into a directory of its own. */
function write(directory: string, { type, script }: Defect): string {
  const path = `${directory}/${type}`;
  const text = `#!/bin/sh\nin=$(cat)\n` +
    `run() { printf %s "$in" | ${BIN}/${type}; }\n${script}\n`;
  Deno.writeTextFileSync(path, text, { mode: 0o755 });
  return path;
}

/** The same directory, as seen from any working directory. */
const RELATIVE_BIN = "../".repeat(20) + BIN.slice(1);

async function conform(
  ...args: string[]
): Promise<{ readonly exitCode: number; readonly rows: readonly Row[] }> {
  const { stdout, exitCode } = await runCni(
    ...["conform", "--json", `--cni-path=${RELATIVE_BIN}`, ...args],
  );
  const document = JSON.parse(stdout);
  assertEquals(await validate(document, jsonSchema), []);
  return { exitCode, rows: document.executables[0].rows };
}

rootTest(
  "cni conform names the defect of an executable",
  needsBin,
  async (t) => {
    for (const [name, defect] of Object.entries(DEFECTS)) {
      const { breaks, keeps, why, needs } = defect;
      const { ignore = false, suffix = "" } = needs ?? {};
      const run = async (): Promise<void> => {
        const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
        try {
          const path = write(directory, defect);
          const requirements = `${breaks},${keeps}`;
          const { rows } = await conform(
            ...[`--requirement=${requirements}`, "--call-timeout=5s", path],
          );
          const broken = rows.filter(({ outcome }) => outcome === "broken");
          assertEquals(broken.map(({ id }) => id), [breaks]);
          assertMatch(broken[0]?.why ?? "", why);
          assert((broken[0]?.shows ?? []).some((line) => line.includes(path)));
          const kept = rows.filter(({ outcome }) => outcome === "kept");
          assertEquals(kept.map(({ id }) => id), [keeps]);
        } finally {
          await Deno.remove(directory, { recursive: true });
        }
      };
      await t.step({ name: name + suffix, ignore, fn: run });
    }
  },
);

/** Runs lines of a report as its reader would; returns the exit codes and what they print. */
async function replay(
  lines: readonly string[],
): Promise<{ readonly exits: readonly number[]; readonly stdout: string }> {
  const node = "mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib; " +
    "ip link set lo up; exec bash";
  const command = new Deno.Command("unshare", {
    args: ["--mount", "--net", "bash", "-c", node],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  });
  const child = command.spawn();
  const script = lines.map((line) => `${line}\nprintf '\\nexit %d\\n' $?\n`)
    .join("");
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(script));
  await writer.close();
  const stdout = new TextDecoder().decode((await child.output()).stdout);
  const exits = [...stdout.matchAll(/^exit (\d+)$/gm)]
    .map(([, exit]) => Number(exit));
  return { exits, stdout };
}

/** What the last call of a report comes to: with the defect, and without. */
const SHOWN: Readonly<
  Record<string, { readonly defect: RegExp; readonly right: RegExp }>
> = {
  "CHECK that never fails": {
    defect: /\nexit 0\n\nexit 0\n$/,
    right: /"msg": ?"[^\n]*10\.88\.0\.2[^]*\nexit 1\n$/,
  },
  "GC that its IPAM plugin does not hear of": {
    defect: /\nCNI_COMMAND=ADD\n\nexit 0\n$/,
    right: /\nCNI_COMMAND=ADD\nCNI_COMMAND=GC\n\nexit 0\n$/,
  },
  "an interface that exists is taken": {
    defect: /"sandbox": ?"\/run\/netns\/c1"[^]*\nexit 0\n$/,
    right: /\nexit 1\n[^]*\nexit 0\n$/,
  },
};

rootTest("lines of cni conform show a defect in bash", needsBin, async (t) => {
  for (const [name, { defect, right }] of Object.entries(SHOWN)) {
    await t.step(name, async () => {
      const { type, breaks, ...one } = DEFECTS[name] as Defect;
      const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
      try {
        const path = write(directory, { type, breaks, ...one });
        const { rows } = await conform(`--requirement=${breaks}`, path);
        const lines = rows[0]?.shows ?? [];
        const shown = await replay(lines);
        assertMatch(shown.stdout, defect);
        assertEquals(shown.exits, lines.map(() => 0));
        const fixed = lines.map((line) =>
          line.replace(` ${path} `, ` ${BIN}/${type} `)
        );
        const { stdout, exits } = await replay(fixed);
        assertMatch(stdout, right);
        const last = lines.findLastIndex((line) => line.includes(` ${path} `));
        assertEquals(exits.slice(0, last), lines.slice(0, last).map(() => 0));
      } finally {
        await Deno.remove(directory, { recursive: true });
      }
    });
  }
});

rootTest(
  "cni conform reports no defect of a correct executable",
  needsBin,
  async () => {
    const { rows, exitCode } = await conform(`${BIN}/loopback`);
    const broken = rows.filter(({ outcome }) => outcome === "broken");
    assertEquals(broken, []);
    assertEquals(exitCode, 0);
    assert(rows.length > 30, `${rows.length}`);
  },
);

/** Lists what a try could leave on the node. */
function listNode(): string[] {
  const directories = ["/run", "/run/netns", "/var/lib/cni", "/etc/cni"];
  return directories.flatMap((directory) => {
    const entries = ifPossible(() => [...Deno.readDirSync(directory)]);
    return (entries ?? []).map(({ name }) => `${directory}/${name}`);
  }).sort();
}

rootTest("cni conform leaves nothing on the node", needsBin, async () => {
  const before = listNode(), cwd = Deno.cwd();
  await conform("--requirement=del,at-once", `${BIN}/host-local`);
  assertEquals(listNode(), before);
  assertEquals(Deno.cwd(), cwd);
});

rootTest("cni conform writes HTML pages and JUnit XML", needsBin, async () => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const path = write(directory, DEFECTS["errors that exit with 0"] as Defect);
    const { stdout, exitCode } = await runCniOn(
      {},
      ...["conform", "--requirement=error-exit,version-answer", path],
      ...[`--junit=${directory}/a.xml`, `--html=${directory}/a.html`],
    );
    assertEquals(exitCode, 1);
    assertMatch(stdout, /^broken +MUST +Calls that cannot succeed exit/m);
    assertMatch(stdout, /^error-exit: exit 0 with an unknown command$/m);
    assertMatch(stdout, /^ {2}\$ CNI_COMMAND=JUMP .*host-local <<< /m);
    const text = stdout.split("\n").filter((line) => !line.startsWith("  $"));
    assertEquals(text.filter((line) => line.length > 80), []);
    const xml = await Deno.readTextFile(`${directory}/a.xml`);
    assertMatch(xml, /tests="2" failures="1" skipped="0"/);
    const page = await Deno.readTextFile(`${directory}/a.html`);
    assertMatch(page, /prefers-color-scheme: dark/);
    assertMatch(page, /<a href="#host-local-error-exit">✗<\/a>/);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

/** Outputs of programs that are not plugins, which exit with 0. */
const ODD_OUTPUTS = {
  "nothing": "",
  "no lists": '{"ips":7,"interfaces":"eth0","dns":{"nameservers":1}}',
  "empty entries": '{"ips":[null],"interfaces":[null]}',
};

rootTest("cni conform reports on programs that are not plugins", async (t) => {
  for (const [name, output] of Object.entries(ODD_OUTPUTS)) {
    await t.step(name, async () => {
      const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
      try {
        const path = `${directory}/odd`;
        const script = `#!/bin/sh\nprintf %s '${output}'\n`;
        await Deno.writeTextFile(path, script, { mode: 0o755 });
        const requirements = "add,result-version,result-shape,result-indexes," +
          "result-true,prev-result,at-once,check-address,error-exit";
        const { rows, exitCode } = await conform(
          `--requirement=${requirements}`,
          path,
        );
        assertEquals(exitCode, 1);
        const outcomes = new Map(rows.map(({ id, outcome }) => [id, outcome]));
        assertEquals(outcomes.get("error-exit"), "broken");
        assertEquals(outcomes.get("result-version"), "broken");
      } finally {
        await Deno.remove(directory, { recursive: true });
      }
    });
  }
});

rootTest("cni conform names a program that does not start", async (t) => {
  const start = async (dir: string, message: RegExp): Promise<void> => {
    const directory = await Deno.makeTempDir({ dir, prefix: "cni-test-" });
    try {
      const path = `${directory}/foreign`;
      await Deno.writeTextFile(path, "#!/none/sh\n", { mode: 0o755 });
      const named = await runCni("conform", path);
      assertEquals([named.exitCode, named.stdout], [1, ""]);
      assertMatch(named.stderr, message);
      const among = await runCni("conform", directory);
      assertEquals(among.exitCode, 3);
      assertMatch(among.stderr, /foreign does not answer VERSION: left out/);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  };
  await t.step("because its interpreter is missing", async () => {
    await start("/tmp", /^Cannot start ".*\/foreign"; .*No such file/);
  });
  await t.step("because the node's own file hides it", async () => {
    await start("/run", /^Cannot start ".*\/foreign": .* neither \/run nor/);
  });
});

rootTest(
  "cni conform runs the commands of its file",
  needsBin,
  async (t) => {
    const tryWith = async (
      daemons: readonly string[],
      ...flags: readonly string[]
    ): ReturnType<typeof runCni> => {
      const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
      try {
        const file = `${directory}/conform.json`;
        const document = { plugins: { static: { like: "static", daemons } } };
        await Deno.writeTextFile(file, JSON.stringify(document));
        const requirement = "--requirement=version-answer,add";
        const config = `--config=${file}`;
        return await runCni(
          ...["conform", requirement, config, `${BIN}/static`],
          ...flags,
        );
      } finally {
        await Deno.remove(directory, { recursive: true });
      }
    };
    await t.step("and does not wait for daemons to exit", async () => {
      const { exitCode, stdout } = await tryWith(
        ["sleep 3600 &"],
        "--json",
      );
      const [{ rows }] = JSON.parse(stdout).executables;
      assertEquals(
        [exitCode, rows.map(({ outcome }: Row) => outcome)],
        [0, ["kept", "kept"]],
      );
    });
    await t.step("and names a command that does not exit", async () => {
      const { exitCode, stdout } = await tryWith(
        ["sleep 3600"],
        "--call-timeout=5s",
      );
      assertEquals(exitCode, 3);
      assertMatch(stdout, /tested: "sleep 3600" did not end within 5 s$/m);
      assertMatch(stdout, /^static: 0 kept; .*; 2 not tested$/m);
    });
  },
);

rootTest("an interrupted cni conform leaves no process", async () => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const path = `${directory}/hanging`;
    const script =
      '#!/bin/sh\nsh -c "sleep 3600; true $0" & sleep 3600; true\n';
    await Deno.writeTextFile(path, script, { mode: 0o755 });
    const running = (): number =>
      [...Deno.readDirSync("/proc")].filter(({ name }) => {
        const text = /^\d+$/.test(name) &&
          ifPossible(() => Deno.readTextFileSync(`/proc/${name}/cmdline`));
        return text && text.includes(path);
      }).length;
    const controller = new AbortController();
    const context = { interrupt: controller.signal };
    const ended = runCniOn(context, "conform", "--call-timeout=1h", path);
    await eventually("the plugin and its child run", () => running() === 2);
    controller.abort(new Interruption("SIGINT"));
    const { exitCode, stderr } = await ended;
    assertEquals([exitCode, stderr], [130, "interrupted by SIGINT\n"]);
    // Nobody waits for the child: the kernel ends it some time after the signal.
    await eventually("both have ended", () => running() === 0);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

rootTest("a node of cni conform kills its own processes only", async () => {
  const start = (at: ThrowAwayNode, { netns }: Sandbox): Deno.ChildProcess =>
    at.inside(() =>
      inNetns(
        netns,
        () => new Deno.Command("sleep", { args: ["60"] }).spawn(),
      )
    );
  using other = new ThrowAwayNode("/none");
  const stays = start(other, other.addSandbox("c1"));
  {
    using place = new ThrowAwayNode("/none");
    const first = place.addSandbox("c1");
    const goes = [start(place, first), start(place, place.addSandbox("c2"))];
    first.remove();
    // The kernel gives its number to the next one.
    const next = start(other, other.addSandbox("c2"));
    place[Symbol.dispose]();
    for (const one of goes) assertEquals((await one.status).signal, "SIGKILL");
    next.kill();
    assertEquals((await next.status).signal, "SIGTERM");
  }
  stays.kill();
  assertEquals((await stays.status).signal, "SIGTERM");
});

Deno.test("cni conform refuses unusable arguments and files", async (t) => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  const file = `${directory}/conform.json`;
  const cases: Readonly<Record<string, readonly [string, RegExp]>> = {
    "a file that is not JSON": ["{", /Cannot parse ".*conform.json": /],
    "a file without plugins": ["{}", /it has no object "plugins"/],
    "an unknown key": [
      '{"plugins":{"a":{"configs":{}}}}',
      /"a" has an unknown key "configs"/,
    ],
    "a key of a wrong type": [
      '{"plugins":{"a":{"host":"ip link"}}}',
      /"a": "host" is not of type list of strings/,
    ],
    "a list with a wrong item": [
      '{"plugins":{"a":{"host":[5]}}}',
      /"a": "host" is not of type list of strings/,
    ],
    "an object with a wrong value": [
      '{"plugins":{"a":{"env":{"A":5}}}}',
      /"a": "env" is not of type object of strings/,
    ],
    "an unknown kind": [
      '{"plugins":{"a":{"kind":"interfce"}}}',
      /"a": "kind" must be one of interface, chained, ipam/,
    ],
    "an unknown built-in entry": [
      '{"plugins":{"a":{"like":"brige"}}}',
      /"a": "like" must be one of bridge, ptp, /,
    ],
    "an exception from no requirement": [
      '{"plugins":{"a":{"except":{"at-onec":"why"}}}}',
      /"a": there is no requirement "at-onec"/,
    ],
    "a broken expression": [
      '{"plugins":{"a":{"keeps":"("}}}',
      /"a": "keeps" is not a regular expression/,
    ],
    "an unknown key beside plugins": [
      '{"plugins":{},"plugin":{}}',
      /it has an unknown key "plugin"/,
    ],
  };
  try {
    for (const [name, [text, message]] of Object.entries(cases)) {
      await t.step(name, async () => {
        await Deno.writeTextFile(file, text);
        const args = [`--config=${file}`, directory];
        const { exitCode, stderr } = await runCni("conform", ...args);
        assertEquals(exitCode, 1);
        assertMatch(stderr, message);
      });
    }
    await t.step("an unknown requirement", async () => {
      const args = ["--requirement=jump", directory];
      const { exitCode, stderr } = await runCni("conform", ...args);
      assertEquals(exitCode, 1);
      assertMatch(stderr, /there is no requirement "jump"/);
    });
    await t.step("an entry about another executable", async () => {
      await Deno.writeTextFile(file, '{"plugins":{"brige":{}}}');
      const args = [`--config=${file}`, directory];
      const { exitCode, stderr } = await runCni("conform", ...args);
      assertEquals(exitCode, 3);
      assertMatch(
        stderr,
        /conform.json has entries for plugins that were not tested: brige$/m,
      );
    });
    await t.step("a file in no directory", async () => {
      const args = ["conform", `--html=${directory}/none/page.html`];
      const { exitCode, stderr } = await runCni(...args, "/none/plugin");
      assertEquals(exitCode, 1);
      assertMatch(stderr, /^Cannot write ".*\/none\/page.html"; /);
    });
    await t.step("an unknown example", async () => {
      const docs = new URL("../../docs/", import.meta.url);
      const path = new URL("examples/conform/foreign.json", docs);
      const page = await Deno.readTextFile(new URL("conformance.md", docs));
      const [, block = ""] = /```json\n([^]*?)```/.exec(page) ?? [];
      for (const text of [block, await Deno.readTextFile(path)]) {
        await Deno.writeTextFile(file, text);
        const args = [`--config=${file}`, directory];
        const { exitCode, stderr } = await runCni("conform", ...args);
        assertEquals(exitCode, 3);
        assertMatch(
          stderr,
          /has entries for plugins that were not tested: [^]+$/m,
        );
      }
    });
    await t.step("a directory without plugins", async () => {
      await Deno.remove(file);
      const { exitCode } = await runCni("conform", directory);
      assertEquals(exitCode, 3);
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
