/** Questions of the tool on a real terminal. */
import { assertEquals } from "@std/assert";
import { hasCommand } from "../testing/capabilities.ts";

/** Runs a program on a terminal; answers each question when it has come. */
const TERMINAL = `
import json, os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
out = b""
answers = [text.encode() for text in json.loads(os.environ["ANSWERS"])]
total = len(answers)
while True:
    try:
        data = os.read(fd, 4096)
    except OSError:
        break
    if not data:
        break
    out += data
    if answers and out.count(b"]:") > total - len(answers):
        os.write(fd, answers.pop(0))
os.waitpid(pid, 0)
sys.stdout.write(out.decode().rsplit("ANSWERS", 1)[1].strip())
`;

for (
  const [name, answers, want, term] of [
    [
      "takes what is typed instead of the default",
      ["ptp\r", "\r"],
      '["ptp","pods"]',
    ],
    ["stops at Ctrl-C", ["\x03"], "Stopped without an answer"],
    ["stops at Ctrl-D", ["\x04"], "Stopped without an answer"],
    ["asks nothing where Ctrl-C would not stop it", [], "nobody", "dumb"],
  ] as const
) {
  Deno.test({
    name: `findPrompt() ${name}`,
    ignore: !hasCommand("python3"),
    fn: async () => {
      const module = new URL("../base/command_line/prompt.ts", import.meta.url);
      const script = `import { findPrompt } from "${module}";
        Deno.addSignalListener("SIGINT", () => {}); // as the tool does
        const ask = findPrompt() ?? (() => { throw new Error("nobody") });
        try {
          const answers = [ask("Type", "bridge"), ask("Name", "pods")];
          console.log("ANSWERS" + JSON.stringify(answers));
        } catch ({ message }) {
          console.log("ANSWERS" + message);
        }
        Deno.exit(0);`;
      const code = `data:text/typescript,${encodeURIComponent(script)}`;
      const { stdout, stderr } = await new Deno.Command("python3", {
        args: ["-c", TERMINAL, Deno.execPath(), "run", "-A", "--no-check"]
          .concat("--no-config", code),
        env: {
          NO_COLOR: "1",
          TERM: term ?? "xterm",
          ANSWERS: JSON.stringify(answers),
        },
      }).output();
      const decoder = new TextDecoder();
      assertEquals(decoder.decode(stderr), "");
      assertEquals(decoder.decode(stdout), want);
    },
  });
}
