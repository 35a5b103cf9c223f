import { assertEquals } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIsolated } from "./isolation.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const MODULE = new URL("shared_directories.ts", import.meta.url);

/** Hides directories, and says which of them are others then; leaves a file in the first. */
const SCRIPT = `
  import { hideSharedDirectories } from "${MODULE}";
  const [needed, ...directories] = Deno.args;
  const look = () => directories.map((directory) => Deno.statSync(directory).dev);
  const before = look();
  hideSharedDirectories(directories[0], [needed]);
  console.log(look().map((device, at) => device !== before[at]).join());
  Deno.writeTextFileSync(directories[0] + "/file", "");
`;

rootTest(
  "hideSharedDirectories() hides all directories not needed",
  async (t) => {
    const rows: [needed: string, hidden: string][] = [
      ["/usr/lib/cni", "true,true"],
      ["/runner/bin", "true,true"],
      ["/run/bin", "true,false"],
      ["/run", "true,false"],
    ];
    await eachRow(t, rows, async ([needed, hidden]) => {
      const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
      const args = ["eval", "--no-config", "--ext=ts", SCRIPT];
      const command = [Deno.execPath(), ...args, needed, directory, "/run"];
      const { code, stdout } = await runIsolated(command, "/");
      assertEquals([code, stdout], [0, `${hidden}\n`]);
      await Deno.remove(directory); // which is empty
    });
  },
);
