/**
 * A stand-in for firewalld on a bus of its own: it keeps the sources of zones, and
 * refuses like firewalld. The bus is a real `dbus-daemon`, and the stand-in
 * speaks to it by another implementation of the protocol.
 *
 * @module
 */

import library from "@homebridge/dbus-native";
import {
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";

const NAME = "org.fedoraproject.FirewallD1";

/** An error that goes over the bus. */
class Refusal extends Error {
  readonly dbusName = `${NAME}.Exception`;
}

/** Options of {@linkcode FakeFirewalld.start}. */
interface Options {
  /** Whether firewalld runs; otherwise there is a bus only. */
  readonly runs?: boolean;
  /** How many connections a user may have to the bus. */
  readonly mostConnections?: number;
  /** What nobody may send, as the attributes of a rule of the bus's policy. */
  readonly denied?: string;
}

/** A bus, and firewalld on it. */
export class FakeFirewalld implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  /** Zones by source. */
  readonly sources = new Map<string, string>();
  /** The calls so far, such as `addSource trusted 10.0.0.2/32`. */
  readonly calls: string[] = [];
  /** Environment of plugins on this host. */
  readonly env: Record<string, string>;
  /** Its answer to every call, if it fails. */
  failure: string | undefined;
  /** Whether it answers no call, as while it loads its rules again. */
  isBusy = false;

  private constructor(bus: PrivateBus) {
    this.#stack.use(bus);
    this.env = bus.env;
  }

  /**
   * Starts both.
   *
   * @param directory Gets the socket
   */
  static async start(
    directory: string,
    { runs = true, ...limits }: Options = {},
  ): Promise<FakeFirewalld> {
    const bus = await PrivateBus.start(directory, limits);
    const fake = new FakeFirewalld(bus);
    if (runs) await fake.#serve(bus.address);
    return fake;
  }

  async #serve(busAddress: string): Promise<void> {
    // deno-lint-ignore no-explicit-any -- its declarations lack most of it
    const bus = (library as any).createClient({ busAddress });
    this.#stack.defer(() =>
      new Promise<void>((resolve) => {
        bus.connection.stream.once("close", resolve);
        bus.connection.stream.destroy();
      })
    );
    const methods = Object.fromEntries(
      Object.keys(this.#methods()).map((name) => [name, [
        "ss",
        name === "querySource" ? "b" : "s",
      ]]),
    );
    const shape = { name: `${NAME}.zone`, methods, signals: {} };
    bus.exportInterface(
      this.#methods(),
      `/${NAME.replaceAll(".", "/")}`,
      shape,
    );
    await new Promise<void>((resolve, reject) =>
      bus.requestName(
        NAME,
        0,
        (error: unknown) => error ? reject(error) : resolve(),
      )
    );
  }

  #methods(): Record<string, (zone: string, source: string) => unknown> {
    const noted = (
      name: string,
      work: (zone: string, source: string) => unknown,
    ) =>
    (zone: string, source: string): unknown => {
      this.calls.push(`${name} ${zone} ${source}`);
      if (this.isBusy) return new Promise(() => {});
      if (this.failure !== undefined) throw new Refusal(this.failure);
      return work(zone, source);
    };
    return {
      addSource: noted("addSource", (zone, source) => {
        const bound = this.sources.get(source);
        if (bound === zone) throw new Refusal(`ZONE_ALREADY_SET: ${source}`);
        if (bound !== undefined) throw new Refusal(`ZONE_CONFLICT: ${source}`);
        this.sources.set(source, zone);
        return zone;
      }),
      removeSource: noted("removeSource", (zone, source) => {
        const bound = this.sources.get(source);
        if (bound === undefined) throw new Refusal(`UNKNOWN_SOURCE: ${source}`);
        if (bound !== zone) throw new Refusal(`ZONE_CONFLICT: ${source}`);
        this.sources.delete(source);
        return zone;
      }),
      querySource: noted(
        "querySource",
        (zone, source) => this.sources.get(source) === zone,
      ),
    };
  }

  /** Ends both. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** Skips what needs a bus, which admits only users that it can look up. */
export const needsBus: Needs = ignoreUnless(
  hasCommand("dbus-daemon") && isKnownUser(),
  "needs dbus-daemon, and a user with an entry in /etc/passwd",
);

function isKnownUser(): boolean {
  const { success } = new Deno.Command("id", {
    args: ["-un"],
    stdout: "null",
    stderr: "null",
  }).outputSync();
  return success;
}

/** A bus on which everything is allowed, except what its options deny. */
export class PrivateBus implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  /** The address of its socket. */
  readonly address: string;
  /** Environment of programs that are to use it as the system bus. */
  readonly env: Record<string, string>;

  private constructor(process: Deno.ChildProcess, address: string) {
    [this.#process, this.address] = [process, address];
    this.env = { DBUS_SYSTEM_BUS_ADDRESS: address };
  }

  /**
   * Starts it, and waits until it listens.
   *
   * @param directory Gets the socket
   */
  static async start(
    directory: string,
    { mostConnections = 256, denied }: Omit<Options, "runs"> = {},
  ): Promise<PrivateBus> {
    const address = `unix:path=${directory}/bus`;
    const config = `${directory}/bus.conf`;
    const deny = denied === undefined ? "" : `<deny ${denied}/>`;
    Deno.writeTextFileSync(
      config,
      `<busconfig>
  <type>system</type>
  <listen>${address}</listen>
  <auth>EXTERNAL</auth>
  <limit name="max_connections_per_user">${mostConnections}</limit>
  <policy context="default">
    <allow own="*"/><allow send_destination="*"/><allow eavesdrop="true"/>
    ${deny}
  </policy>
</busconfig>`,
    );
    const flags = ["--nofork", "--nopidfile", "--print-address"];
    const args = [`--config-file=${config}`, ...flags];
    const options = { args, stdout: "piped", stderr: "null" } as const;
    const process = new Deno.Command("dbus-daemon", options).spawn();
    await untilItListens(process);
    return new PrivateBus(process, address);
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill();
    await this.#process.status;
  }
}

/** Waits for the address, which it prints when it listens. */
async function untilItListens({ stdout }: Deno.ChildProcess): Promise<void> {
  const reader = stdout.getReader();
  const { done } = await reader.read();
  await reader.cancel();
  if (done) throw new Error("dbus-daemon ended");
}
