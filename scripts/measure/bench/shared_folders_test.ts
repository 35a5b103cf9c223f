import { assertEquals } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIsolated } from "./isolation.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

const MODULE = new URL("shared_folders.ts", import.meta.url);

/** Hides folders, and says which of them are others then; leaves a file in the first. */
const SCRIPT = `
  import { hideSharedFolders } from "${MODULE}";
  const [needed, ...folders] = Deno.args;
  const look = () => folders.map((folder) => Deno.statSync(folder).dev);
  const before = look();
  hideSharedFolders(folders[0], [needed]);
  console.log(look().map((device, at) => device !== before[at]).join());
  Deno.writeTextFileSync(folders[0] + "/file", "");
`;

rootTest("hideSharedFolders() hides all folders not needed", async (t) => {
  const rows: [needed: string, hidden: string][] = [
    ["/usr/lib/cni", "true,true"],
    ["/runner/bin", "true,true"],
    ["/run/bin", "true,false"],
    ["/run", "true,false"],
  ];
  await eachRow(t, rows, async ([needed, hidden]) => {
    const folder = await Deno.makeTempDir({ prefix: "cni-test-" });
    const args = ["eval", "--no-config", "--ext=ts", SCRIPT];
    const command = [Deno.execPath(), ...args, needed, folder, "/run"];
    const { code, stdout } = await runIsolated(command, "/");
    assertEquals([code, stdout], [0, `${hidden}\n`]);
    await Deno.remove(folder); // which is empty
  });
});
