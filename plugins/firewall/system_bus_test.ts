import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  FakeFirewalld,
  needsBus,
} from "../../tests/_harness/fake_firewalld.ts";
import { BusError, BusTimeout, BusUnusable, SystemBus } from "./system_bus.ts";

const FIREWALLD = "org.fedoraproject.FirewallD1";

Deno.test({
  name: `SystemBus calls methods${needsBus.suffix}`,
  ignore: needsBus.ignore,
  fn: async () => {
    const directory = await Deno.makeTempDir();
    try {
      await using firewalld = await FakeFirewalld.start(directory);
      using bus = await SystemBus.open(firewalld.env);
      assert(bus !== undefined);
      assertEquals(await bus.hasOwner(FIREWALLD), true);
      assertEquals(await bus.hasOwner("org.example.None"), false);
      const zone = (member: string, ...body: string[]): Promise<unknown> =>
        bus.call({
          destination: FIREWALLD,
          interface: `${FIREWALLD}.zone`,
          member,
          body,
        });
      const source = "10.0.0.2/32";
      assertEquals(await zone("querySource", "trusted", source), false);
      // Lengths on and off the boundaries of 4 and 8 bytes.
      for (const name of ["", "z", "zöne", "zone5", "a".repeat(9000)]) {
        assertEquals(await zone("addSource", name, source), name);
        assertEquals(await zone("querySource", name, source), true);
        await assertRejects(
          () => zone("addSource", name, source),
          BusError,
          `ZONE_ALREADY_SET: ${source}`,
        );
        await zone("removeSource", name, source);
      }
      await assertRejects(() => zone("none"), BusError, "none");
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test("SystemBus.open() fails if the bus refuses or hangs up", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/bus`;
  const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${path},guid=1` };
  try {
    assertEquals(await SystemBus.open(env), undefined);
    // Closing removes one name of the socket.
    const bound = Deno.listen({ transport: "unix", path: `${path}-bound` });
    await Deno.link(`${path}-bound`, path);
    bound.close();
    await assertRejects(() => SystemBus.open(env), BusUnusable, "connection");
    await Deno.remove(path);
    using listener = Deno.listen({ transport: "unix", path });
    const answers: [answer: string, error: string][] = [
      ["REJECTED EXTERNAL\r\n", "The system bus refuses the login: REJECTED"],
      ["", "The system bus closed the connection"],
      ["OK 1234\r\nl", "The system bus closed the connection"],
    ];
    for (const [answer, error] of answers) {
      const served = (async () => {
        using connection = await listener.accept();
        await connection.read(new Uint8Array(100));
        await connection.write(new TextEncoder().encode(answer));
        await connection.closeWrite();
        // Reads what it is sent, so that closing does not reset the connection.
        while (await connection.read(new Uint8Array(100)) !== null);
      })();
      await assertRejects(() => SystemBus.open(env), Error, error);
      await served;
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("SystemBus fails at its time limit if the bus does not answer", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/bus`;
  const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${path}` };
  try {
    using listener = Deno.listen({ transport: "unix", path });
    for (const answers of [[], ["OK 1234\r\n"]]) {
      const limit = new AbortController();
      const served = (async () => {
        using connection = await listener.accept();
        for (const answer of answers) {
          await connection.read(new Uint8Array(100));
          await connection.write(new TextEncoder().encode(answer));
        }
        await connection.read(new Uint8Array(100));
        limit.abort();
        while (await connection.read(new Uint8Array(100)) !== null);
      })();
      await assertRejects(
        () => SystemBus.open(env, limit.signal),
        BusTimeout,
        "did not answer in time",
      );
      await served;
    }
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
