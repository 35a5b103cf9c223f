/**
 * Steps of the call stub: stdin, and the daemon's socket that it names.
 *
 * @module
 */

import { WORD_BYTES } from "../../../cni/call_format.ts";
import { StdinName } from "../../../cni/stdin_name.ts";
import { Frame, MAX_STDIN, Memory } from "./frame.ts";
import { codeOf, Step, type Writer } from "./writer.ts";

/** Keys of the configuration. */
const KEYS = ["daemonSocket", "daemonSocketDir"] as const;
/** Programs that look for the daemon by its folder. */
const WITH_FOLDER = ["multus", "chain", "multus-shim"];
/** The program that has a folder even if the configuration names none. */
const SHIM = "multus-shim", SHIM_SOCKET = "/run/multus/daemon.sock";
const SOCKET_NAME = "/daemon.sock";

/** Source: linux/un.h `struct sockaddr_un`: the family has 2 bytes, the path 108. */
const ADDRESS_PATH = 2, MAX_PATH = 107;

/** Source: Linux mman-common.h, poll.h, socket.h. */
const PROT_READ_WRITE = 3, MAP_PRIVATE_ANONYMOUS_NORESERVE = 0x4022;
const POLLIN = 1, AF_UNIX = 1;
const STDIN = 0;

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
  w.memory("a", Memory.stdin, "b");
  p.number("b", MAX_STDIN);
  p.label("read on"); // a = where to, b = how much
  p.jumpIf("b", "==", 0, "stdin read"); // more than a plugin takes
  p.systemCall("read", STDIN, "a", "b");
  p.jumpIf("result", "==", 0, "stdin read");
  const retry = w.newLabel("retry");
  w.onFailure(retry, STDIN, POLLIN, "read on", Step.freeMemory);
  p.add("a", "result");
  p.subtract("b", "result");
  p.jump("read on");
  p.label("stdin read");
  w.memory("c", Memory.stdin, "d");
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
  });
  w.memory("a", Memory.stdin, "b");
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
  p.label("next of string");
  w.nextByte("d", Step.putBack);
  p.jumpIf("d", "==", codeOf('"'), "end of string");
  p.jumpIf("d", "!=", codeOf("\\"), "next of string");
  w.nextByte("d", Step.putBack);
  p.jump("next of string");
  p.label("end of string"); // a = behind its quote
  p.jumpIf("c", "!=", 1, "next token");
  KEYS.forEach((key, index) => matchKey(w, key, index));
  p.jump("next token");
  p.label("end of tokens");
}

/** If the string from e to a is a key, keeps its value, which has to be a plain string. */
function matchKey(w: Writer, key: string, index: number): void {
  const { p } = w;
  const label = (what: string): string => `${what} of ${key}`;
  p.move("d", "a");
  p.subtract("d", "e");
  p.jumpIf("d", "!=", key.length + 1, label("other"));
  p.move("d", "e");
  p.labelAddress("f", w.text(key));
  p.label(label("next")); // c is free: it is 1
  p.loadByte("result", "f");
  p.jumpIf("result", "==", 0, label("colon"));
  p.loadByte("c", "d");
  p.addNumber("f", 1);
  p.addNumber("d", 1);
  p.jumpIf("c", "==", "result", label("next"));
  p.number("c", 1);
  p.jump(label("other"));

  p.label(label("colon"));
  p.number("c", 1);
  skipSpace(w, label("space"));
  p.jumpIf("d", "!=", codeOf(":"), Step.putBack); // a value, or no JSON
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

/** Writes the address of the daemon's socket. */
export function findSocket(w: Writer): void {
  const { p } = w;
  p.number("a", AF_UNIX);
  p.store("a", "frame", Frame.address);
  p.load("a", "frame", Frame.values);
  p.load("b", "frame", Frame.valueLengths);
  p.jumpIf("a", "!=", 0, "copy path");
  p.load("b", "frame", Frame.baseName);
  for (const name of WITH_FOLDER) w.jumpIfText("b", name, "with folder");
  p.jump(Step.putBack);
  p.label("with folder");
  p.load("a", "frame", Frame.values + WORD_BYTES);
  p.load("b", "frame", Frame.valueLengths + WORD_BYTES);
  p.jumpIf("a", "!=", 0, "copy path");
  p.load("b", "frame", Frame.baseName);
  w.jumpIfText("b", SHIM, "usual socket");
  p.jump(Step.putBack);
  p.label("usual socket");
  p.labelAddress("a", w.text(SHIM_SOCKET));
  p.number("b", SHIM_SOCKET.length);

  p.label("copy path"); // a = from, b = length
  p.jumpIf("b", "==", 0, Step.putBack);
  p.jumpIf("b", ">=", MAX_PATH - SOCKET_NAME.length, Step.putBack);
  p.loadByte("c", "a");
  p.jumpIf("c", "!=", codeOf("/"), Step.putBack);
  p.frameAddress("d", Frame.address + ADDRESS_PATH);
  p.label("next of path");
  p.loadByte("c", "a");
  p.storeByte("c", "d");
  p.addNumber("a", 1);
  p.addNumber("d", 1);
  p.addNumber("b", -1);
  p.jumpIf("b", "!=", 0, "next of path");
  // The folder's name ends in a quote; so does the socket's, which is complete.
  p.load("a", "frame", Frame.values);
  p.jumpIf("a", "!=", 0, "end of path");
  p.load("a", "frame", Frame.values + WORD_BYTES);
  p.jumpIf("a", "==", 0, "end of path");
  p.labelAddress("a", w.text(SOCKET_NAME));
  p.label("next of name");
  p.loadByte("c", "a");
  p.jumpIf("c", "==", 0, "end of path");
  p.storeByte("c", "d");
  p.addNumber("a", 1);
  p.addNumber("d", 1);
  p.jump("next of name");
  p.label("end of path");
  p.number("c", 0);
  p.storeByte("c", "d");
  p.addNumber("d", 1);
  p.frameAddress("a", Frame.address);
  p.subtract("d", "a");
  p.store("d", "frame", Frame.addressLength);
}
