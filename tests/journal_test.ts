/**
 * The log in systemd's journal: a journal of its own, and what `cni logs` reads
 * from it.
 *
 * @module
 */

import { assertEquals, assertMatch } from "@std/assert";
import { ifPossible } from "../base/files/io.ts";
import { importFlags } from "../scripts/import_flags.ts";
import {
  allOf,
  canUseNetns,
  hasCommand,
  ignoreUnless,
} from "../testing/capabilities.ts";

const JOURNALD = "/lib/systemd/systemd-journald";

const { ignore, suffix } = allOf(
  ignoreUnless(canUseNetns && hasCommand("unshare"), "needs root"),
  ignoreUnless(
    ifPossible(() => Deno.statSync(JOURNALD))?.isFile === true &&
      hasCommand("journalctl"),
    "needs systemd-journald",
  ),
);

/** Runs its arguments beside a journal that only they see. */
const BESIDE_JOURNAL = `mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
${JOURNALD} & trap "kill $!" EXIT
for i in $(seq 500); do [ -S /run/systemd/journal/socket ] && break; sleep 0.02; done
"$@"`;

/** Logs, and shows the log as soon as the journal has it. */
const LOG_AND_SHOW = `
  import { createLog } from "./base/log/log.ts";
  import { keepLog } from "./base/log/log_file.ts";
  import { runCni } from "./tests/_harness/tool_call.ts";
const env = { CNI_LOG_FILE: "journal", ...JSON.parse(Deno.args[0]) };
const records = [];
const fields = { plugin: "ptp", command: "DEL", containerId: "c1" };
const log = createLog(fields, (_, record) => records.push(record), env);
log.info("done", { empty: "" });
log.error("two\\nlines", { tries: 2 });
await keepLog(records, env);
for (let tries = 0; tries < 500; tries++) {
  const { stdout } = await runCni("logs", "--raw", "--log-file", "journal", "c1");
  if (stdout.split("\\n").length > 2) {
    console.log(stdout.trimEnd());
    break;
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
}`;

async function logInJournal(env: Record<string, string>): Promise<string[]> {
  const flags = await importFlags();
  const script = ["eval", ...flags, LOG_AND_SHOW, JSON.stringify(env)];
  const { stdout, stderr } = await new Deno.Command("unshare", {
    args: ["--mount", "bash", "-c", BESIDE_JOURNAL, "sh", Deno.execPath()]
      .concat(script),
    cwd: new URL("..", import.meta.url),
  }).output();
  const decoder = new TextDecoder();
  const text = decoder.decode(stdout) || decoder.decode(stderr);
  return text.trimEnd().split("\n");
}

Deno.test({
  name: `CNI_LOG_FILE=journal logs to systemd's journal${suffix}`,
  ignore,
  fn: async () => {
    const [first = "", second = "", ...others] = await logInJournal({});
    const time = /^time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /;
    assertMatch(first, time);
    assertEquals(
      [first, second].map((line) => line.replace(time, "")),
      [
        "level=info plugin=ptp command=DEL containerId=c1 msg=done",
        'level=error plugin=ptp command=DEL containerId=c1 msg="two\\nlines" tries=2',
      ],
    );
    assertEquals(others, []);
  },
});
