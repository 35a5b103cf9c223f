import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { chooseStyle, showControls, wantsColor } from "./style.ts";

testRows(
  "wantsColor() allows colours on terminals unless disabled",
  [
    ["a terminal", { TERM: "xterm" }, true, true],
    ["a pipe", { TERM: "xterm" }, false, false],
    ["NO_COLOR", { NO_COLOR: "1" }, true, false],
    ["an empty NO_COLOR, which does not count", { NO_COLOR: "" }, true, true],
    ["a dumb terminal", { TERM: "dumb" }, true, false],
  ],
  ([, env, tty, want]: [string, Record<string, string>, boolean, boolean]) =>
    assertEquals(wantsColor(env, tty), want),
);

Deno.test("chooseStyle() highlights text only with colours", () => {
  assertEquals(chooseStyle(false).red("a"), "a");
  assertEquals(chooseStyle(true).red("a"), "\u001b[31ma\u001b[39m");
  assertEquals(chooseStyle(true).bold(""), "");
});

Deno.test("showControls() escapes all control characters", () => {
  assertEquals(showControls("a\u001b[2Jb\n"), "a\\u001b[2Jb\\u000a");
  assertEquals(showControls("\u202eexe.fdp\u009b"), "\\u202eexe.fdp\\u009b");
  assertEquals(showControls("Größe 网络"), "Größe 网络");
});
