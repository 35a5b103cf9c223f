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

/** Source: Linux mman-common.h, poll.h, socket.h. */
const PROT_READ_WRITE = 3, MAP_PRIVATE_ANONYMOUS_NORESERVE = 0x4022;
const POLLIN = 1, AF_UNIX = 1;
const STDIN = 0;
const MAX_ASCII = 0x7f, TO_LOWER = 32;

/** Maps memory for stdin and messages, which costs only what is used of it. */
export function mapMemory(w: Writer): void {
  const { p } = w;
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
  w.setText("a", StdinName.notAsked, Frame.stdinName);
  p.load("a", "frame", Frame.stdin);
  p.number("b", MAX_STDIN);
  p.label("read on"); // a = where to, b = how much
  p.jumpIf("b", "==", 0, "stdin read"); // more than a plugin takes
  p.systemCall("read", STDIN, "a", "b");
  p.jumpIf("result", "==", 0, "stdin read");
  w.onFailure({
    fd: STDIN,
    events: POLLIN,
    again: "read on",
    failed: Step.freeMemory,
  });
  p.add("a", "result");
  p.subtract("b", "result");
  p.jump("read on");
  p.label("stdin read");
  p.load("c", "frame", Frame.stdin);
  p.subtract("a", "c");
  p.store("a", "frame", Frame.stdinLength);
  p.jumpIf("b", "==", 0, Step.putBack);
}

/**
 * Finds the keys at the top level of the configuration. What is not JSON is
 * found by deno, or by the daemon.
 */
export function findKeys(w: Writer): void {
  const { p } = w;
  p.number("a", 0);
  KEYS.forEach((_, index) => {
    p.store("a", "frame", Frame.values + index * WORD_BYTES);
    p.store("a", "frame", Frame.valueLengths + index * WORD_BYTES);
  });
  p.load("a", "frame", Frame.stdin);
  p.load("b", "frame", Frame.stdinLength);
  p.add("b", "a");
  p.number("c", 0);

  p.label("next token"); // a = where, b = end, c = depth
  w.nextByte("d", "end of tokens");
  p.jumpIf("d", "==", codeOf('"'), "string");
  for (const open of "{[") p.jumpIf("d", "==", codeOf(open), "deeper");
  for (const close of "}]") p.jumpIf("d", "==", codeOf(close), "higher");
  p.jump("next token");
  p.label("deeper");
  p.addNumber("c", 1);
  p.jump("next token");
  p.label("higher");
  p.addNumber("c", -1);
  p.jump("next token");

  p.label("string");
  p.move("e", "a"); // e = its first character
  p.number("f", 0); // f = 1 if it is not plain: an escape, or not ASCII
  p.label("next of string");
  w.nextByte("d", Step.putBack);
  p.jumpIf("d", "==", codeOf('"'), "end of string");
  p.jumpIf("d", ">=", MAX_ASCII + 1, "string is not plain");
  p.jumpIf("d", "!=", codeOf("\\"), "next of string");
  w.nextByte("d", Step.putBack);
  p.label("string is not plain");
  p.number("f", 1);
  p.jump("next of string");
  p.label("end of string"); // a = behind its quote
  p.jumpIf("c", "!=", 1, "next token");
  p.jumpIf("f", "==", 0, "plain string");
  // A key that is not plain may be one of ours to deno.
  skipSpace(w, "space behind string");
  p.jumpIf("d", "==", codeOf(":"), Step.putBack);
  p.addNumber("a", -1);
  p.jump("next token");
  p.label("plain string");
  KEYS.forEach((key, index) => matchKey(w, key, index));
  p.jump("next token");
  p.label("end of tokens");
}

/**
 * If the string from e to a is a key, keeps its value, which has to be a plain
 * string. A key in another spelling is left to deno.
 */
function matchKey(w: Writer, key: string, index: number): void {
  const { p } = w;
  const label = (what: string): string => `${what} of ${key}`;
  const [there, begin, expected, text] = ["c", "e", "f", "d"] as const;
  p.move(text, "a");
  p.subtract(text, begin);
  p.jumpIf(text, "!=", key.length + 1, label("other"));
  p.move(text, begin);
  p.number("result", 0);
  p.store("result", "frame", Frame.otherSpelling);
  p.labelAddress(expected, w.text(key));
  p.label(label("next"));
  p.loadByte("result", expected);
  p.jumpIf("result", "==", 0, label("colon"));
  p.loadByte(there, text);
  p.addNumber(expected, 1);
  p.addNumber(text, 1);
  p.jumpIf(there, "==", "result", label("next"));
  // The other case of a letter lies 32 before or behind it.
  p.addNumber(there, TO_LOWER);
  p.jumpIf(there, "==", "result", label("spelling"));
  p.addNumber(there, -2 * TO_LOWER);
  p.jumpIf(there, "==", "result", label("spelling"));
  p.number("c", 1); // the depth
  p.jump(label("other"));
  p.label(label("spelling"));
  p.number("result", 1);
  p.store("result", "frame", Frame.otherSpelling);
  p.jump(label("next"));

  p.label(label("colon"));
  p.number("c", 1);
  skipSpace(w, label("space"));
  p.jumpIf("d", "!=", codeOf(":"), Step.putBack); // a value, or no JSON
  p.load("d", "frame", Frame.otherSpelling);
  p.jumpIf("d", "!=", 0, Step.putBack);
  skipSpace(w, label("space before value"));
  p.jumpIf("d", "!=", codeOf('"'), Step.putBack);
  p.load("d", "frame", Frame.values + index * WORD_BYTES);
  p.jumpIf("d", "!=", 0, Step.putBack); // there are two
  p.store("a", "frame", Frame.values + index * WORD_BYTES);
  p.move("e", "a");
  p.label(label("value"));
  w.nextByte("d", Step.putBack);
  p.jumpIf("d", "==", codeOf("\\"), Step.putBack);
  p.jumpIf("d", "!=", codeOf('"'), label("value"));
  p.move("d", "a");
  p.subtract("d", "e");
  p.addNumber("d", -1);
  p.store("d", "frame", Frame.valueLengths + index * WORD_BYTES);
  p.jump("next token");
  p.label(label("other"));
}

/** Loads the next byte that is not white space into d. */
function skipSpace(w: Writer, label: string): void {
  const { p } = w;
  p.label(label);
  w.nextByte("d", Step.putBack);
  for (const space of " \n\r\t") p.jumpIf("d", "==", codeOf(space), label);
}

/** Writes the address of the daemon's socket: the first that `listSockets` has. */
export function findSocket(w: Writer): void {
  const { p } = w;
  const [path, length, suffix] = ["a", "b", "f"] as const;
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
  w.setText("a", StdinName.refused, Frame.stdinName); // it is "": none
  p.jump(Step.putBack);

  p.label("no socket");
  p.load("b", "frame", Frame.baseName);
  const programs = Object.entries(DIRECTORY_PROGRAMS);
  for (const [name] of programs) w.jumpIfText("b", name, `socket of ${name}`);
  useText(DEFAULT_SOCKET);
  for (const [name, usual] of programs) {
    p.label(`socket of ${name}`);
    loadValue(directory);
    p.labelAddress(suffix, w.text(SOCKET_NAME));
    p.jumpIf(length, "!=", 0, "copy path");
    useText(usual === undefined ? DEFAULT_SOCKET : `${usual}${SOCKET_NAME}`);
  }

  p.label("copy path");
  const [character, end] = ["c", "d"] as const;
  p.jumpIf(length, ">=", MAX_PATH - SOCKET_NAME.length, Step.putBack);
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
