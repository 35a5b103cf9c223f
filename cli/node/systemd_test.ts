import { assertEquals } from "@std/assert";
import { hasUnit } from "./systemd.ts";

Deno.test("hasUnit() finds a unit unless it is masked", async () => {
  const root = await Deno.makeTempDir();
  const [etc, usr] = [`${root}/etc`, `${root}/usr`];
  const has = (): boolean => hasUnit("a.service", [etc, usr]);
  try {
    assertEquals(has(), false);
    await Deno.mkdir(usr);
    await Deno.writeTextFile(`${usr}/a.service`, "[Unit]\n");
    assertEquals(has(), true);
    await Deno.mkdir(etc);
    await Deno.symlink("/dev/null", `${etc}/a.service`);
    assertEquals(has(), false);
    await Deno.remove(`${etc}/a.service`);
    await Deno.symlink(`${usr}/a.service`, `${etc}/a.service`);
    assertEquals(has(), true);
    await Deno.remove(`${usr}/a.service`);
    assertEquals(has(), false);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
