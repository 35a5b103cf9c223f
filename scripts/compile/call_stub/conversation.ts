/**
 * Steps of the call stub: the request to the daemon, and its answer.
 *
 * @module
 */

import {
  HEADER_BYTES,
  HeaderField,
  MAGIC,
  MESSAGE_HEADER_BYTES,
  MessageKind,
  REFUSAL_OF_FORMAT_1,
  RequestFile,
  RequestPart,
  WORD_BYTES,
} from "../../../cni/call_format.ts";
import { StdinName } from "../../../cni/stdin_name.ts";
import { FOLDER_BYTES, Frame, MAX_MESSAGE, Memory, slotOf } from "./frame.ts";
import type { Argument } from "./processor.ts";
import { Step, type Writer } from "./writer.ts";

const CANNOT_PRINT = "Cannot write to stdout\n";

/** Source: linux/uio.h `struct iovec`. */
const IOVEC_BYTES = 16;
/** Source: Linux fcntl.h, net.h, poll.h, socket.h. */
const AT_FDCWD = 0xffff_ff9c;
const AF_UNIX = 1, SOCK_STREAM_CLOEXEC = 0x80001, MSG_NOSIGNAL = 0x4000;
const POLLIN = 1, POLLOUT = 4;
const STDOUT = 1, STDERR = 2;

/** Lengths that are known before the request is made. */
const LENGTHS: readonly (readonly [keyof typeof RequestPart, number])[] = [
  ["name", Frame.nameLength],
  ["environment", Frame.environmentLength],
  ["stdin", Frame.stdinLength],
];

const FILES = [
  ["host", "/proc/self/ns/net"],
  ["mnt", "/proc/self/ns/mnt"],
  ["root", "/"],
  ["exe", "/proc/self/exe"],
] as const;

function lengthAt(part: keyof typeof RequestPart): number {
  return HeaderField.lengths + WORD_BYTES * RequestPart[part];
}

/** Writes the header: the world as this process sees it. */
export function describe(w: Writer): void {
  const { p } = w;
  p.load("a", "frame", Frame.memory); // a = the header
  w.memory("b", Memory.folder, "c");
  p.systemCall("getcwd", "b", FOLDER_BYTES);
  p.jumpIfNegative("result", Step.putBack);
  p.addNumber("result", -1); // the NUL
  p.store("result", "a", lengthAt("folder"));
  for (const [part, slot] of LENGTHS) {
    p.load("b", "frame", slot);
    p.store("b", "a", lengthAt(part));
  }
  p.systemCall("umask", 0);
  p.move("b", "result");
  p.systemCall("umask", "b");
  p.store("b", "a", HeaderField.umask);
  p.load("c", "frame", slotOf("CNI_NETNS"));
  identify(w, RequestFile.netns, "c");
  for (const [file, path] of FILES) {
    identify(w, RequestFile[file], { label: w.text(path) });
  }
}

/** Writes device and inode of a file, with which `struct stat` begins; zeros if there is none. */
function identify(w: Writer, file: number, path: Argument): void {
  const { p } = w;
  p.number("b", 0);
  p.store("b", "frame", Frame.stat);
  p.store("b", "frame", Frame.stat + WORD_BYTES);
  p.systemCall("newfstatat", AT_FDCWD, path, { frame: Frame.stat }, 0);
  for (const offset of [0, WORD_BYTES]) {
    p.load("b", "frame", Frame.stat + offset);
    const at = HeaderField.files + 2 * WORD_BYTES * file + offset;
    p.store("b", "a", at);
  }
}

/** Connects to the daemon, of which nobody may be there. */
export function connect(w: Writer): void {
  const { p } = w;
  p.systemCall("socket", AF_UNIX, SOCK_STREAM_CLOEXEC, 0);
  p.jumpIfNegative("result", Step.putBack);
  p.store("result", "frame", Frame.socket);
  // A standard stream that was closed must not become the socket.
  p.jumpIf("result", "<", STDERR + 1, Step.closeSocket);
  p.load("a", "frame", Frame.socket);
  p.load("b", "frame", Frame.addressLength);
  p.systemCall("connect", "a", { frame: Frame.address }, "b");
  p.jumpIfNegative("result", Step.closeSocket);
}

/** Sends the header, the parts and a line feed at once. */
export function send(w: Writer, build: string): void {
  const { p } = w;
  p.load("a", "frame", Frame.memory);
  p.labelAddress("b", w.text(MAGIC));
  p.load("b", "b", 0);
  p.store("b", "a", HeaderField.magic);
  p.number("b", build.length);
  p.store("b", "a", lengthAt("build"));
  p.number("f", 0); // the total

  let index = 0;
  const add = (load: (address: "b", length: "c") => void): void => {
    const at = Frame.parts + IOVEC_BYTES * index++;
    load("b", "c");
    p.store("b", "frame", at);
    p.store("c", "frame", at + WORD_BYTES);
    p.add("f", "c");
  };
  const addText = (text: string): void =>
    add((address, length) => {
      p.labelAddress(address, w.text(text));
      p.number(length, text.length);
    });
  const addMemory = (offset: number, part?: keyof typeof RequestPart): void =>
    add((address, length) => {
      w.memory(address, offset, length);
      if (part === undefined) p.number(length, HEADER_BYTES);
      else p.load(length, "a", lengthAt(part));
    });
  const addPointer = (slot: number, part: keyof typeof RequestPart): void =>
    add((address, length) => {
      p.load(address, "frame", slot);
      p.load(length, "a", lengthAt(part));
    });
  addMemory(Memory.header);
  addText(build);
  addPointer(Frame.name, "name");
  addMemory(Memory.folder, "folder");
  addPointer(Frame.environment, "environment");
  addMemory(Memory.stdin, "stdin");
  addText("\n");

  // struct msghdr: name, its length, parts, their number, control, its length, flags
  p.frameAddress("b", Frame.parts);
  p.number("c", index);
  p.number("d", 0);
  (["d", "d", "b", "c", "d", "d", "d"] as const).forEach((field, at) =>
    p.store(field, "frame", Frame.messageHeader + at * WORD_BYTES)
  );
  p.load("b", "frame", Frame.socket);
  const header = { frame: Frame.messageHeader };
  // From here on the daemon may run the call, and nobody knows what became of it.
  w.setText("c", StdinName.lost, Frame.stdinName);
  p.systemCall("sendmsg", "b", header, MSG_NOSIGNAL);
  p.jumpIf("result", "==", "f", "receive");
  // It runs none of which it has a part.
  w.setText("c", StdinName.refused, Frame.stdinName);
  p.jump(Step.closeSocket);
}

/** Prints what the daemon says. */
export function receive(w: Writer): void {
  const { p } = w;
  p.label("receive");
  p.frameAddress("a", Frame.message);
  p.number("b", MESSAGE_HEADER_BYTES);
  receiveAll(w, "header");
  p.load("c", "frame", Frame.message);
  p.jumpIf("c", "==", MessageKind.notMine, "refused");
  p.labelAddress("d", w.text(REFUSAL_OF_FORMAT_1));
  p.load("d", "d", 0);
  p.jumpIf("c", "==", "d", "refused");
  p.jumpIf("c", ">=", MessageKind.notMine, "lost");
  p.jumpIf("c", "==", 0, "lost");
  p.load("b", "frame", Frame.message + WORD_BYTES);
  p.number("a", MAX_MESSAGE + 1);
  p.jumpIf("b", ">=", "a", "lost");
  w.memory("a", Memory.message, "c");
  receiveAll(w, "message");
  w.memory("a", Memory.message, "c");
  p.load("b", "frame", Frame.message + WORD_BYTES);
  p.load("c", "frame", Frame.message);
  p.jumpIf("c", "==", MessageKind.stderr, "log text");

  writeAll(w, "stdout", STDOUT, "cannot print");
  p.load("c", "frame", Frame.message);
  p.addNumber("c", -MessageKind.success); // 0 or 1
  p.systemCall("exit_group", "c");

  p.label("log text");
  writeAll(w, "log", STDERR, "receive");
  p.jump("receive");

  p.label("refused");
  w.setText("c", StdinName.refused, Frame.stdinName);
  p.jump(Step.closeSocket);

  p.label("cannot print");
  const text = { label: w.text(CANNOT_PRINT) };
  p.systemCall("write", STDERR, text, CANNOT_PRINT.length);
  p.systemCall("exit_group", 1);
}

/** Receives b bytes into a. */
function receiveAll(w: Writer, what: string): void {
  const { p } = w;
  const next = `next of ${what}`;
  p.label(next);
  p.jumpIf("b", "==", 0, `end of ${what}`);
  p.load("c", "frame", Frame.socket);
  p.systemCall("read", "c", "a", "b");
  p.jumpIf("result", "==", 0, "lost");
  w.onFailure(`failure of ${what}`, "c", POLLIN, next, "lost");
  p.add("a", "result");
  p.subtract("b", "result");
  p.jump(next);
  p.label(`end of ${what}`);
}

/** Writes b bytes from a. */
function writeAll(w: Writer, what: string, fd: number, failed: string): void {
  const { p } = w;
  const next = `next of ${what}`;
  p.label(next);
  p.jumpIf("b", "==", 0, `end of ${what}`);
  p.systemCall("write", fd, "a", "b");
  w.onFailure(`failure of ${what}`, fd, POLLOUT, next, failed);
  p.add("a", "result");
  p.subtract("b", "result");
  p.jump(next);
  p.label(`end of ${what}`);
}

/** The connection broke: deno says so, or runs the call if it can be repeated. */
export function lost(w: Writer): void {
  const { p } = w;
  p.label("lost");
  p.label(Step.closeSocket);
  p.load("a", "frame", Frame.socket);
  p.systemCall("close", "a");
}
