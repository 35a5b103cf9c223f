/**
 * Calls of services on the system bus, D-Bus: methods that take texts and return
 * one value.
 *
 * The libraries for D-Bus need modules of Node, which the executables do not
 * have, and take longer to load than a plugin's whole call.
 *
 * Source: D-Bus specification 0.38, "Message Protocol", "Authentication
 * Protocol".
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { JoinedSignal, waitUntil } from "../../base/deadline.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { isUnreachable } from "../../base/files/io.ts";
import { yieldIfLong } from "../../base/long_wait.ts";
import { type Bytes, concat, viewOf } from "../../net/bytes.ts";

const DEFAULT_ADDRESS = "unix:path=/var/run/dbus/system_bus_socket";
const BUS = "org.freedesktop.DBus";
const ACCESS_DENIED = "org.freedesktop.DBus.Error.AccessDenied";

/** Codes of messages and of the fields of their headers. */
const METHOD_CALL = 1, METHOD_RETURN = 2, ERROR = 3;
const Field = {
  path: 1,
  interface: 2,
  member: 3,
  errorName: 4,
  replySerial: 5,
  destination: 6,
  signature: 8,
} as const;
/** Length of the fixed part of a header, with the length of its fields. */
const HEADER_BYTES = 16;
/** How long a connection may take. Source: libdbus `_DBUS_DEFAULT_TIMEOUT_VALUE`. */
const LIMIT_MS = 25_000;
/** The longest message that a bus lets pass. */
const MAX_MESSAGE_BYTES = 2 ** 27;
const LITTLE_ENDIAN = "l".charCodeAt(0);

/** A method to call. */
export interface Method {
  /** Name of the service, which is also the path of its object. */
  readonly destination: string;
  readonly interface: string;
  readonly member: string;
  readonly body: readonly string[];
}

/** A value of a message. */
export type Value = string | number | boolean;

/** An answer: the fields of its header by code, and its first value. */
interface Answer {
  readonly type: number;
  readonly fields: ReadonlyMap<number, Value>;
  readonly value: Value | undefined;
}

/** An error that a method returned. */
export class BusError extends Error {
  override readonly name = "BusError";
}

/**
 * Nobody listens at the bus's socket, or the bus denies this user access, as by its
 * policy, AppArmor or SELinux.
 */
export class BusUnusable extends Error {
  override readonly name = "BusUnusable";
}

/** The bus, or a service on it, does not answer in time. */
export class BusTimeout extends CniError {}

/** A connection to the system bus. */
export class SystemBus implements Disposable {
  readonly #connection: Deno.Conn;
  readonly #limit: JoinedSignal;
  #received: Bytes = new Uint8Array(0);
  #serial = 0;

  private constructor(connection: Deno.Conn, signal?: AbortSignal) {
    this.#connection = connection;
    this.#limit = new JoinedSignal(LIMIT_MS, signal);
  }

  /**
   * Connects to the system bus, at DBUS_SYSTEM_BUS_ADDRESS if that is set.
   * Returns undefined if the host has none.
   *
   * All calls over the connection must end within 25 s, or before the signal.
   *
   * @throws {BusUnusable} If the bus refuses the connection or the login
   * @throws {BusTimeout} 11 if the bus does not answer in time
   * @throws {Error} If the bus fails
   */
  static async open(
    env: Environment,
    signal?: AbortSignal,
  ): Promise<SystemBus | undefined> {
    const address = env["DBUS_SYSTEM_BUS_ADDRESS"] || DEFAULT_ADDRESS;
    const path = /(?:^|;)unix:path=([^,;]+)/.exec(address)?.[1];
    const connection = path === undefined ? undefined : await connect(path);
    if (connection === undefined) return undefined;
    const bus = new SystemBus(connection, signal);
    try {
      await bus.#logIn();
      return bus;
    } catch (error) {
      bus[Symbol.dispose]();
      throw error;
    }
  }

  async #logIn(): Promise<void> {
    const uid = new TextEncoder().encode(String(Deno.uid())).toHex();
    await this.#sendText(`\0AUTH EXTERNAL ${uid}\r\n`);
    const line = await this.#readLine();
    if (!line.startsWith("OK ")) {
      throw new BusUnusable(`The system bus refuses the login: ${line}`);
    }
    await this.#sendText("BEGIN\r\n");
    await this.#callBus("Hello");
  }

  /**
   * Reports whether a service is on the bus.
   *
   * @throws {BusUnusable} If the bus denies that to this user
   * @throws {Error} If the bus fails
   */
  async hasOwner(name: string): Promise<boolean> {
    return await this.#callBus("NameHasOwner", name) === true;
  }

  #callBus(
    member: string,
    ...body: readonly string[]
  ): Promise<Value | undefined> {
    return this.call({ destination: BUS, interface: BUS, member, body });
  }

  /**
   * Calls a method and returns its first value.
   *
   * @throws {BusError} If the service refuses
   * @throws {BusUnusable} If this user is denied access
   * @throws {BusTimeout} 11 if it does not answer in time
   * @throws {Error} If the bus fails
   */
  async call(method: Method): Promise<Value | undefined> {
    const serial = ++this.#serial;
    await this.#send(encodeCall(method, serial));
    while (true) {
      const { type, fields, value } = await this.#readMessage();
      const isAnswer = fields.get(Field.replySerial) === serial;
      if (isAnswer && type === METHOD_RETURN) return value;
      if (isAnswer && type === ERROR) {
        const name = fields.get(Field.errorName);
        const message = String(value ?? name);
        throw name === ACCESS_DENIED
          ? new BusUnusable(message)
          : new BusError(message);
      }
    }
  }

  #sendText(text: string): Promise<void> {
    return this.#send(new TextEncoder().encode(text));
  }

  async #send(bytes: Bytes): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      const length = await this.#inTime(this.#connection.write(rest));
      rest = rest.subarray(length);
    }
  }

  async #readLine(): Promise<string> {
    let end;
    while ((end = this.#received.indexOf("\n".charCodeAt(0))) === -1) {
      await this.#receive();
    }
    return new TextDecoder().decode(this.#take(end + 1)).trimEnd();
  }

  async #readMessage(): Promise<Answer> {
    await this.#await(HEADER_BYTES);
    const bodyAt = bodyOffsetOf(this.#received);
    const length = bodyAt + lengthsOf(this.#received).body;
    if (length > MAX_MESSAGE_BYTES) {
      throw new Error(`The system bus sent a message of ${length} bytes`);
    }
    await this.#await(length);
    return decodeMessage(this.#take(length), bodyAt);
  }

  async #await(length: number): Promise<void> {
    while (this.#received.length < length) await this.#receive();
  }

  async #receive(): Promise<void> {
    const buffer = new Uint8Array(4096);
    const length = await this.#inTime(this.#connection.read(buffer));
    if (length === null) {
      throw new Error("The system bus closed the connection");
    }
    this.#received = concat([this.#received, buffer.subarray(0, length)]);
  }

  async #inTime<T>(exchange: Promise<T>): Promise<T> {
    const done = await yieldIfLong(() =>
      waitUntil(exchange.then((value) => ({ value })), this.#limit.signal)
    );
    if (done !== undefined) return done.value;
    throw new BusTimeout(
      ErrorCode.TryAgainLater,
      "The system bus, or a service on it, did not answer in time",
    );
  }

  #take(length: number): Bytes {
    const taken = this.#received.slice(0, length);
    this.#received = this.#received.slice(length);
    return taken;
  }

  /** Closes the connection. */
  [Symbol.dispose](): void {
    this.#limit[Symbol.dispose]();
    this.#connection.close();
  }
}

/** Returns undefined if there is no such socket. */
async function connect(path: string): Promise<Deno.Conn | undefined> {
  try {
    return await Deno.connect({ transport: "unix", path });
  } catch (error) {
    if (isUnreachable(error)) return undefined;
    const isRefused = error instanceof Deno.errors.ConnectionRefused ||
      error instanceof Deno.errors.PermissionDenied;
    if (!isRefused) throw error;
    const message = "The system bus refuses the connection";
    throw new BusUnusable(message, { cause: error });
  }
}

/** Writes values, each on its boundary. */
class Writer {
  readonly #bytes: number[] = [];

  /** Returns what was written. */
  get bytes(): Bytes {
    return new Uint8Array(this.#bytes);
  }

  align(boundary: number): this {
    while (this.#bytes.length % boundary !== 0) this.#bytes.push(0);
    return this;
  }

  byte(...values: readonly number[]): this {
    this.#bytes.push(...values);
    return this;
  }

  u32(value: number): this {
    const shifts = [0, 8, 16, 24];
    return this.align(4).byte(...shifts.map((shift) => value >>> shift & 0xff));
  }

  /** Writes a text with its length, which is one byte for a signature. */
  text(text: string, isSignature = false): this {
    const bytes = new TextEncoder().encode(text);
    if (isSignature) this.byte(bytes.length);
    else this.u32(bytes.length);
    return this.byte(...bytes, 0);
  }
}

function encodeCall(method: Method, serial: number): Bytes {
  const { destination, member, body } = method;
  const content = new Writer();
  for (const text of body) content.text(text);
  const fields = new Writer();
  const add = (code: number, type: string, text: string): void => {
    fields.align(8).byte(code).text(type, true).text(text, type === "g");
  };
  add(Field.path, "o", `/${destination.replaceAll(".", "/")}`);
  add(Field.interface, "s", method.interface);
  add(Field.member, "s", member);
  add(Field.destination, "s", destination);
  if (body.length > 0) add(Field.signature, "g", "s".repeat(body.length));
  const header = new Writer().byte(LITTLE_ENDIAN, METHOD_CALL, 0, 1)
    .u32(content.bytes.length).u32(serial)
    .u32(fields.bytes.length).byte(...fields.bytes).align(8);
  return concat([header.bytes, content.bytes]);
}

/** Returns the lengths of a message's body and fields. */
function lengthsOf(message: Bytes): { body: number; fields: number } {
  const view = viewOf(message), isLittle = message[0] === LITTLE_ENDIAN;
  return {
    body: view.getUint32(4, isLittle),
    fields: view.getUint32(12, isLittle),
  };
}

function bodyOffsetOf(message: Bytes): number {
  return Math.ceil((HEADER_BYTES + lengthsOf(message).fields) / 8) * 8;
}

/** Reads values, each from its boundary. */
class Reader {
  readonly #message: Bytes;
  #at: number;

  constructor(message: Bytes, at: number) {
    this.#message = message;
    this.#at = at;
  }

  get at(): number {
    return this.#at;
  }

  align(boundary: number): this {
    this.#at = Math.ceil(this.#at / boundary) * boundary;
    return this;
  }

  byte(): number {
    return this.#message[this.#at++] ?? 0;
  }

  u32(): number {
    const isLittle = this.#message[0] === LITTLE_ENDIAN;
    const value = viewOf(this.#message).getUint32(this.align(4).#at, isLittle);
    this.#at += 4;
    return value;
  }

  #text(length: number): string {
    const bytes = this.#message.subarray(this.#at, this.#at + length);
    this.#at += length + 1;
    return new TextDecoder().decode(bytes);
  }

  /** Reads a value of a type; undefined for other types. */
  value(type: string | undefined): Value | undefined {
    if (type === "s" || type === "o") return this.#text(this.u32());
    if (type === "g") return this.#text(this.byte());
    if (type === "b") return this.u32() === 1;
    if (type === "u") return this.u32();
    return undefined;
  }
}

function decodeMessage(message: Bytes, bodyAt: number): Answer {
  const fields = new Map<number, Value>();
  const end = HEADER_BYTES + lengthsOf(message).fields;
  const reader = new Reader(message, HEADER_BYTES);
  while (reader.align(8).at < end) {
    const code = reader.byte();
    const value = reader.value(String(reader.value("g")));
    if (value === undefined) break;
    fields.set(code, value);
  }
  const type = String(fields.get(Field.signature) ?? "")[0];
  const value = new Reader(message, bodyAt).value(type);
  return { type: message[1] ?? 0, fields, value };
}
