import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { CallRunner } from "./call.ts";
import { measureStarts } from "./start.ts";

rootTest("measureStarts() runs VERSION of each plugin, and Deno", () => {
  using ours = new PluginDirectory();
  using go = new PluginDirectory();
  const answer = 'test "$CNI_COMMAND" = VERSION';
  for (const type of ["ptp", "sbr", "other"]) ours.add(type, answer);
  go.add("ptp", answer);
  go.add("sbr", "exit 1");
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  const notes: string[] = [];
  try {
    const { series } = measureStarts({
      subjects: [
        { name: "ours", bin: ours.path },
        { name: "go", bin: go.path },
      ],
      runner: new CallRunner(directory),
      strace: undefined,
      deno: [],
      rounds: { warmUp: 1, single: 2, batch: 1, peak: 0 },
      directory,
      note: (text) => void notes.push(text),
      progress: () => {},
    });
    const measured = series.map(({ step, who, values }) =>
      `${step} ${who} ${values.wallMs?.length}`
    );
    assertEquals(measured, [
      "VERSION ptp ours 2",
      "VERSION ptp go 2",
      "VERSION sbr ours 2",
      "run one line deno 2",
    ]);
    assertStringIncludes(notes.join(), "go, VERSION sbr: Cannot run");
    assertEquals(notes.length, 1);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
