/**
 * Steps of the call stub: stdin, and the daemon's socket that it names.
 *
 * @module
 */

import { WORD_BYTES } from "../../../daemon/protocol/call_format.ts";
import {
  DEFAULT_SOCKET,
  DIRECTORY_PROGRAMS,
  SOCKET_NAME,
  SocketKey,
} from "../../../daemon/protocol/daemon_socket.ts";
import { StdinName } from "../../../daemon/protocol/stdin_name.ts";
import { ADDRESS_PATH, Frame, MAX_STDIN, Memory } from "./frame.ts";
import { codeOf, Step, type Writer } from "./writer.ts";

/** Keys of the configuration. */
const KEYS = [SocketKey.socket, SocketKey.directory];

/** Source: linux/un.h `struct sockaddr_un`: the path has 108 bytes. */
const MAX_PATH = 107;
/** The text behind a directory. */
const SUFFIX = `/${SOCKET_NAME}`;

/** Source: Linux mman-common.h, poll.h, socket.h. */
const PROT_READ_WRITE = 3, MAP_PRIVATE_ANONYMOUS_NORESERVE = 0x4022;
const POLLIN = 1, AF_UNIX = 1;
const STDIN = 0;
const MAX_ASCII = 0x7f, TO_LOWER = 32;

/** Maps memory for stdin and messages, which costs only what is used of it. */
export function mapMemory(w: Writer): void {
  const { p } = w;
  using _ = w.step("map memory", {});
  p.systemCall(
    "mmap",
    0,
    Memory.end,
    PROT_READ_WRITE,
    MAP_PRIVATE_ANONYMOUS_NORESERVE,
    0xffff_ffff,
    0,
  );
  p.jumpIfNegative("result", Step.startDeno);
  p.store("result", "frame", Frame.memory);
}

/** Reads stdin to its end. A stream that fails is left to deno. */
export function readStdin(w: Writer): void {
  const { p } = w;
  using r = w.step("read stdin", { to: "a", room: "b", from: "c" });
  w.setText(r.to, StdinName.notAsked, Frame.stdinName);
  p.load(r.to, "frame", Frame.stdin);
  p.number(r.room, MAX_STDIN);
  w.loop((next, end) => {
    p.jumpIf(r.room, "==", 0, end); // more than a plugin takes
    p.systemCall("read", STDIN, r.to, r.room);
    p.jumpIf("result", "==", 0, end);
    w.onFailure({
      fd: STDIN,
      events: POLLIN,
      again: next,
      failed: Step.freeMemory,
    });
    p.add(r.to, "result");
    p.subtract(r.room, "result");
    p.jump(next);
  });
  p.load(r.from, "frame", Frame.stdin);
  p.subtract(r.to, r.from);
  p.store(r.to, "frame", Frame.stdinLength);
  p.jumpIf(r.room, "==", 0, Step.putBack);
}

/** Where the stub is in the configuration, and what it has just read. */
const PLACE = { at: "a", end: "b", byte: "d" } as const;

/**
 * Finds the keys at the top level of the configuration. What is not JSON is
 * found by deno, or by the daemon.
 */
export function findKeys(w: Writer): void {
  const { p } = w;
  using r = w.step("find the keys", { ...PLACE, depth: "c", isUnusual: "f" });
  p.number(r.at, 0);
  KEYS.forEach((_, index) => {
    p.store(r.at, "frame", Frame.values + index * WORD_BYTES);
    p.store(r.at, "frame", Frame.valueLengths + index * WORD_BYTES);
  });
  p.load(r.at, "frame", Frame.stdin);
  p.load(r.end, "frame", Frame.stdinLength);
  p.add(r.end, r.at);
  p.number(r.depth, 0);

  p.label("next token");
  w.nextByte(r, "end of tokens");
  p.jumpIf(r.byte, "==", codeOf('"'), "string");
  for (const open of "{[") p.jumpIf(r.byte, "==", codeOf(open), "deeper");
  for (const close of "}]") p.jumpIf(r.byte, "==", codeOf(close), "higher");
  p.jump("next token");
  p.label("deeper");
  p.addNumber(r.depth, 1);
  p.jump("next token");
  p.label("higher");
  p.addNumber(r.depth, -1);
  p.jump("next token");

  p.label("string");
  p.store(r.at, "frame", Frame.string);
  p.number(r.isUnusual, 0); // 1 if there is an escape, or not only ASCII
  p.label("next of string");
  w.nextByte(r, Step.putBack);
  p.jumpIf(r.byte, "==", codeOf('"'), "end of string");
  p.jumpIf(r.byte, ">=", MAX_ASCII + 1, "string is unusual");
  p.jumpIf(r.byte, "!=", codeOf("\\"), "next of string");
  w.nextByte(r, Step.putBack);
  p.label("string is unusual");
  p.number(r.isUnusual, 1);
  p.jump("next of string");
  p.label("end of string");
  p.jumpIf(r.depth, "!=", 1, "next token");
  p.jumpIf(r.isUnusual, "==", 0, "plain string");
  // A key that is unusual may be one of ours to deno.
  skipSpace(w);
  p.jumpIf(r.byte, "==", codeOf(":"), Step.putBack);
  p.addNumber(r.at, -1);
  p.jump("next token");
  p.label("plain string");
  KEYS.forEach((key, index) => {
    const other = w.newLabel("other key");
    matchKey(w, key, other);
    keepValue(w, index);
    p.jump("next token");
    p.label(other);
  });
  p.jump("next token");
  p.label("end of tokens");
}

/** Jumps unless the string is a key, in any spelling. */
function matchKey(w: Writer, key: string, other: string): void {
  const { p } = w;
  using r = w.step(`is it "${key}"`, {
    ...{ behind: PLACE.at, foundAt: PLACE.byte },
    ...{ found: "e", expectedAt: "f" },
  });
  p.load(r.foundAt, "frame", Frame.string);
  p.move(r.found, r.behind);
  p.subtract(r.found, r.foundAt);
  p.jumpIf(r.found, "!=", key.length + 1, other); // with its quote
  p.number("result", 0);
  p.store("result", "frame", Frame.otherSpelling);
  p.labelAddress(r.expectedAt, w.text(key));
  w.loop((next, end) => {
    const spelling = w.newLabel("spelling");
    p.loadByte("result", r.expectedAt);
    p.jumpIf("result", "==", 0, end);
    p.loadByte(r.found, r.foundAt);
    p.addNumber(r.expectedAt, 1);
    p.addNumber(r.foundAt, 1);
    p.jumpIf(r.found, "==", "result", next);
    // The other case of a letter lies 32 before or behind it.
    p.addNumber(r.found, TO_LOWER);
    p.jumpIf(r.found, "==", "result", spelling);
    p.addNumber(r.found, -2 * TO_LOWER);
    p.jumpIf(r.found, "!=", "result", other);
    p.label(spelling);
    p.number("result", 1);
    p.store("result", "frame", Frame.otherSpelling);
    p.jump(next);
  });
}

/** Keeps the value of a key, which has to be a plain string. A key in another spelling is left to deno. */
function keepValue(w: Writer, index: number): void {
  const { p } = w;
  using r = w.step("keep the value", { ...PLACE, begin: "e" });
  const [value, length] = [Frame.values, Frame.valueLengths]
    .map((first) => first + index * WORD_BYTES) as [number, number];
  skipSpace(w);
  p.jumpIf(r.byte, "!=", codeOf(":"), Step.putBack); // a value, or no JSON
  using known = w.step("check that it is the only one", { is: PLACE.byte });
  p.load(known.is, "frame", Frame.otherSpelling);
  p.jumpIf(known.is, "!=", 0, Step.putBack);
  skipSpace(w);
  p.jumpIf(r.byte, "!=", codeOf('"'), Step.putBack);
  p.load(known.is, "frame", value);
  p.jumpIf(known.is, "!=", 0, Step.putBack);
  p.store(r.at, "frame", value);
  p.move(r.begin, r.at);
  w.loop((next) => {
    w.nextByte(r, Step.putBack);
    p.jumpIf(r.byte, "==", codeOf("\\"), Step.putBack);
    p.jumpIf(r.byte, "!=", codeOf('"'), next);
  });
  using done = w.step("keep its length", { length: PLACE.byte });
  p.move(done.length, r.at);
  p.subtract(done.length, r.begin);
  p.addNumber(done.length, -1);
  p.store(done.length, "frame", length);
}

/** Loads the next byte that is not white space. */
function skipSpace(w: Writer): void {
  const { p } = w;
  using r = w.step("skip space", PLACE);
  w.loop((next) => {
    w.nextByte(r, Step.putBack);
    for (const space of " \n\r\t") {
      p.jumpIf(r.byte, "==", codeOf(space), next);
    }
  });
}

/** Writes the address of the daemon's socket: the first that `listSockets` has. */
export function findSocket(w: Writer): void {
  const { p } = w;
  using r = w.step("find the socket", {
    ...{ path: "a", length: "b", character: "c", end: "d", suffix: "f" },
  });
  const { path, length, suffix, character, end } = r;
  const [socket, directory] = KEYS.map((_, index) => index * WORD_BYTES);
  const loadValue = (offset = 0): void => {
    p.load(path, "frame", Frame.values + offset);
    p.load(length, "frame", Frame.valueLengths + offset);
  };
  const useText = (text: string): void => {
    p.labelAddress(path, w.text(text));
    p.number(length, text.length);
    p.labelAddress(suffix, w.text(""));
    p.jump("copy path");
  };
  p.number(path, AF_UNIX);
  p.store(path, "frame", Frame.address);
  loadValue(socket);
  p.labelAddress(suffix, w.text(""));
  p.jumpIf(length, "!=", 0, "copy path");
  p.jumpIf(path, "==", 0, "no socket");
  w.setText(path, StdinName.refused, Frame.stdinName); // it is "": none
  p.jump(Step.putBack);

  p.label("no socket");
  using program = w.step("find the program", { name: "b" });
  p.load(program.name, "frame", Frame.baseName);
  const programs = Object.entries(DIRECTORY_PROGRAMS);
  for (const [name] of programs) {
    w.jumpIfText(program.name, name, `socket of ${name}`);
  }
  useText(DEFAULT_SOCKET);
  for (const [name, usual] of programs) {
    p.label(`socket of ${name}`);
    loadValue(directory);
    p.labelAddress(suffix, w.text(SUFFIX));
    p.jumpIf(length, "!=", 0, "copy path");
    useText(usual === undefined ? DEFAULT_SOCKET : `${usual}${SUFFIX}`);
  }

  p.label("copy path");
  p.jumpIf(length, ">=", MAX_PATH - SUFFIX.length, Step.putBack);
  p.loadByte(character, path);
  p.jumpIf(character, "!=", codeOf("/"), Step.putBack);
  p.frameAddress(end, Frame.address + ADDRESS_PATH);
  p.label("next of path");
  p.loadByte(character, path);
  p.storeByte(character, end);
  p.addNumber(path, 1);
  p.addNumber(end, 1);
  p.addNumber(length, -1);
  p.jumpIf(length, "!=", 0, "next of path");
  w.copyText(suffix, end, character);
  p.storeByte(character, end); // the NUL
  p.addNumber(end, 1);
  p.frameAddress(path, Frame.address);
  p.subtract(end, path);
  p.store(end, "frame", Frame.addressLength);
}
