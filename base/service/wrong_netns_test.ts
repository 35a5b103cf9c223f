import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { moduleCommand } from "../../tests/_harness/as_module.ts";

rootTest(
  "a service that cannot return from a namespace ends with 70",
  async () => {
    const url = (path: string): string => new URL(path, import.meta.url).href;
    const script = `
    import { exitInWrongNetns } from "${url("wrong_netns.ts")}";
    import { inNetns, NetNs } from "${url("../../ffi/netns.ts")}";
    import { dropCapabilities } from "${
      url("../../tests/_harness/drop_capabilities.ts")
    }";
    exitInWrongNetns((text) => console.log(text.trimEnd()));
    using netns = NetNs.create();
    try { inNetns(netns, dropCapabilities); } catch { console.log("caught"); }
    console.log("continued");`;
    const command = await moduleCommand(script);
    const { code, stdout } = await command.output();
    assertEquals(
      [code, new TextDecoder().decode(stdout)],
      [
        70,
        "The daemon exits immediately: Cannot return to the namespace this " +
        "thread came from: setns: EPERM\n",
      ],
    );
  },
);
