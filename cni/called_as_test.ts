import { assertEquals } from "@std/assert";

Deno.test("calledAs() is the name of a link, not of what that leads to", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const link = `${folder}/some-plugin`;
    await Deno.symlink(Deno.execPath(), link);
    const module = JSON.stringify(new URL("./called_as.ts", import.meta.url));
    const script = `console.log((await import(${module})).calledAs());`;
    const { stdout } = await new Deno.Command(link, {
      args: ["eval", "--quiet", "--no-config", "--no-check", script],
    }).output();
    assertEquals(new TextDecoder().decode(stdout), "some-plugin\n");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
