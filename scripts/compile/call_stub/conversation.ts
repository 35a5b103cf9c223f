/**
 * Steps of the call stub: the request to the daemon, and its answer.
 *
 * @module
 */

import {
  GO,
  HURRIED_READY_MS,
  MESSAGE_HEADER_BYTES,
  MessageKind,
  READY_MS,
  SILENCE_MS,
  WORD_BYTES,
} from "../../../daemon/protocol/call_format.ts";
import { LOSS_PERIOD_MS } from "../../../daemon/protocol/daemon_losses.ts";
import { LOSSES, OFF } from "../../../daemon/protocol/daemon_socket.ts";
import { StdinName } from "../../../daemon/protocol/stdin_name.ts";
import { ADDRESS_PATH, Frame, MAX_MESSAGE, Memory } from "./frame.ts";
import type { Argument } from "./processor.ts";
import { endRequest } from "./request.ts";
import { Step, TIMEOUT_MS, type Writer } from "./writer.ts";

const CANNOT_PRINT = "Cannot write to stdout\n";

/** Source: Linux fcntl.h, net.h, poll.h, socket.h. */
const AT_FDCWD = 0xffff_ff9c, F_OK = 0;
const AF_UNIX = 1, SOCK_STREAM_NONBLOCK_CLOEXEC = 0x80801;
const SOL_SOCKET = 1, SO_PEERCRED = 17, UCRED_BYTES = 12;
const MSG_NOSIGNAL = 0x4000;
const POLLIN = 1, POLLOUT = 4;
const STDOUT = 1, STDERR = 2;
/** Source: Linux signal.h: `struct sigaction` begins with the handler; SIG_IGN is 1. */
const SIGPIPE = 13, SIGSET_BYTES = 8, IGNORE = "\x01".padEnd(32, "\0");

/** Source: Linux asm-generic/stat.h, asm/stat.h, time.h: `st_mtime` of `struct stat`. */
const MTIME = 88, CLOCK_REALTIME = 0;

/** How long the stub waits, in units of {@linkcode TIMEOUT_MS}. */
const READY_TIMEOUTS = READY_MS / TIMEOUT_MS,
  HURRIED_TIMEOUTS = HURRIED_READY_MS / TIMEOUT_MS,
  SILENCE_TIMEOUTS = SILENCE_MS / TIMEOUT_MS;

/** Connects to the daemon, unless it is turned off, nobody is there or it is another user's. */
export function connect(w: Writer): void {
  const { p } = w;
  const [socket, length] = ["a", "b"] as const;
  findOffFile(w);
  p.systemCall("socket", AF_UNIX, SOCK_STREAM_NONBLOCK_CLOEXEC, 0);
  p.jumpIfNegative("result", Step.putBack);
  p.store("result", "frame", Frame.socket);
  // A standard stream that was closed must not become the socket.
  p.jumpIf("result", "<", STDERR + 1, Step.closeSocket);
  w.setText("a", StdinName.nobody, Frame.stdinName);
  p.load(socket, "frame", Frame.socket);
  p.load(length, "frame", Frame.addressLength);
  p.systemCall("connect", socket, { frame: Frame.address }, length);
  p.jumpIfNegative("result", Step.closeSocket);
  checkListener(w);
}

/** Leaves the call to deno if there is the file that turns the daemon off. */
function findOffFile(w: Writer): void {
  const { p } = w;
  withSuffix(
    w,
    OFF,
    (path) => p.systemCall("faccessat", AT_FDCWD, path, F_OK),
  );
  w.setText("a", StdinName.off, Frame.stdinName);
  p.jumpIf("result", "==", 0, Step.putBack);
  w.setText("a", StdinName.notAsked, Frame.stdinName);
}

/** Makes a system call with another file beside the socket; changes a, b and c. */
function withSuffix(
  w: Writer,
  suffix: string,
  call: (path: Argument) => void,
): void {
  const { p } = w;
  const [text, end, character] = ["a", "b", "c"] as const;
  p.frameAddress(end, Frame.address - 1);
  p.load(character, "frame", Frame.addressLength);
  p.add(end, character); // the path's NUL
  p.labelAddress(text, w.text(suffix));
  w.copyText(text, end, character);
  p.storeByte(character, end);
  call({ frame: Frame.address + ADDRESS_PATH });
  p.addNumber(end, -suffix.length);
  p.storeByte(character, end); // still 0
}

/** Leaves the call to deno unless root or this process's user listens. */
function checkListener(w: Writer): void {
  const { p } = w;
  const [socket, user] = ["a", "b"] as const;
  p.number(user, UCRED_BYTES);
  p.store(user, "frame", Frame.credentialsLength);
  p.load(socket, "frame", Frame.socket);
  const credentials = { frame: Frame.credentials };
  const length = { frame: Frame.credentialsLength };
  p.systemCall(
    "getsockopt",
    socket,
    SOL_SOCKET,
    SO_PEERCRED,
    credentials,
    length,
  );
  p.jumpIfNegative("result", Step.closeSocket);
  // The lower half is the process, the upper one the user.
  p.load(user, "frame", Frame.credentials);
  p.shiftRight(user, 32);
  p.jumpIf(user, "==", 0, "trusted");
  p.systemCall("geteuid");
  p.jumpIf(user, "!=", "result", Step.closeSocket);
  p.label("trusted");
}

/** Sends the request, and waits until the daemon would begin; then it may. */
export function send(w: Writer): void {
  const { p } = w;
  // Until it may begin, it has no part in the call.
  w.setText("a", StdinName.refused, Frame.stdinName);
  setPatience(w);
  endRequest(w);
  sendAll(w, Step.closeSocket, "late");

  p.frameAddress("a", Frame.message);
  p.number("b", MESSAGE_HEADER_BYTES);
  receiveAll(w, Step.closeSocket, "late");
  p.load("c", "frame", Frame.message);
  p.jumpIf("c", "!=", MessageKind.ready, Step.closeSocket);
  p.load("c", "frame", Frame.message + WORD_BYTES);
  p.jumpIf("c", "!=", 0, Step.closeSocket);

  p.labelAddress("a", w.text(GO));
  p.number("b", GO.length);
  sendAll(w, Step.closeSocket, "late");
  // From here on the daemon may run the call, and nobody knows what became of it.
  w.setText("c", StdinName.lost, Frame.stdinName);
}

/** Begins the time limit for `ready`: a shorter one soon after another call has waited in vain. */
function setPatience(w: Writer): void {
  const { p } = w;
  const [modifiedAt, now, status] = ["a", "b", "d"] as const;
  const patient = w.newLabel("patient");
  w.setLimit(READY_TIMEOUTS);
  w.setText("a", StdinName.late, Frame.lateName);
  w.memory(status, Memory.message, "e");
  withSuffix(
    w,
    LOSSES,
    (path) => p.systemCall("newfstatat", AT_FDCWD, path, status, 0),
  );
  p.jumpIfNegative("result", patient);
  p.load(modifiedAt, status, MTIME);
  p.systemCall("clock_gettime", CLOCK_REALTIME, status);
  p.load(now, status, 0);
  p.subtract(now, modifiedAt);
  // Of a time to come, this is a large number.
  p.jumpIf(now, ">=", LOSS_PERIOD_MS / 1000, patient);
  w.setLimit(HURRIED_TIMEOUTS);
  w.setText("a", StdinName.hurried, Frame.lateName);
  p.label(patient);
}

/** Prints what the daemon says. */
export function receive(w: Writer): void {
  const { p } = w;
  const [bytes, length, kind] = ["a", "b", "c"] as const;
  // As in deno: a pipe that nobody reads is an error, and does not end the process.
  const ignore = { label: w.text(IGNORE) };
  p.systemCall("rt_sigaction", SIGPIPE, ignore, 0, SIGSET_BYTES);
  p.label("receive");
  w.setLimit(SILENCE_TIMEOUTS);
  p.frameAddress(bytes, Frame.message);
  p.number(length, MESSAGE_HEADER_BYTES);
  receiveAll(w, "lost", "silent");
  p.load(kind, "frame", Frame.message);
  p.jumpIf(kind, "==", MessageKind.notMine, "refused");
  p.jumpIf(kind, "==", 0, "lost");
  p.jumpIf(kind, ">=", MessageKind.alive + 1, "lost");
  p.jumpIf(kind, "==", MessageKind.ready, "lost");
  p.load(length, "frame", Frame.message + WORD_BYTES);
  p.number(bytes, MAX_MESSAGE + 1);
  p.jumpIf(length, ">=", bytes, "lost");
  w.memory(bytes, Memory.message, kind);
  receiveAll(w, "lost", "silent");
  p.load(kind, "frame", Frame.message);
  p.jumpIf(kind, "==", MessageKind.alive, "receive");
  w.memory(bytes, Memory.message, kind);
  p.load(length, "frame", Frame.message + WORD_BYTES);
  p.load(kind, "frame", Frame.message);
  p.jumpIf(kind, "==", MessageKind.stderr, "log text");

  writeAll(w, STDOUT, "cannot print");
  p.load(kind, "frame", Frame.message);
  p.addNumber(kind, -MessageKind.success); // 0 or 1
  p.systemCall("exit_group", kind);

  p.label("log text");
  writeAll(w, STDERR, "receive");
  p.jump("receive");

  for (const outcome of ["refused", "silent"] as const) {
    p.label(outcome);
    w.setText("c", StdinName[outcome], Frame.stdinName);
    p.jump(Step.closeSocket);
  }
  p.label("late");
  p.load("c", "frame", Frame.lateName);
  p.store("c", "frame", Frame.stdinName);
  p.jump(Step.closeSocket);

  p.label("cannot print");
  const text = { label: w.text(CANNOT_PRINT) };
  p.systemCall("write", STDERR, text, CANNOT_PRINT.length);
  p.systemCall("exit_group", 1);
}

/** Sends b bytes from a; jumps if the daemon is gone or its time is over. */
function sendAll(w: Writer, failed: string, expired: string): void {
  const { p } = w;
  const socket = "c";
  w.loop((next, end) => {
    p.jumpIf("b", "==", 0, end);
    p.load(socket, "frame", Frame.socket);
    p.systemCall("sendto", socket, "a", "b", MSG_NOSIGNAL, 0, 0);
    w.onFailure({
      fd: socket,
      events: POLLOUT,
      again: next,
      failed,
      expired,
    });
    p.add("a", "result");
    p.subtract("b", "result");
    p.jump(next);
  });
}

/** Receives b bytes into a; jumps if the daemon is gone or its time is over. */
function receiveAll(w: Writer, gone: string, expired: string): void {
  const { p } = w;
  const socket = "c";
  w.loop((next, end) => {
    p.jumpIf("b", "==", 0, end);
    p.load(socket, "frame", Frame.socket);
    p.systemCall("read", socket, "a", "b");
    p.jumpIf("result", "==", 0, gone);
    w.onFailure({
      fd: socket,
      events: POLLIN,
      again: next,
      failed: gone,
      expired,
    });
    p.add("a", "result");
    p.subtract("b", "result");
    p.jump(next);
  });
}

/** Writes b bytes from a. */
function writeAll(w: Writer, fd: number, failed: string): void {
  const { p } = w;
  w.loop((next, end) => {
    p.jumpIf("b", "==", 0, end);
    p.systemCall("write", fd, "a", "b");
    w.onFailure({ fd, events: POLLOUT, again: next, failed });
    p.add("a", "result");
    p.subtract("b", "result");
    p.jump(next);
  });
}

/** The connection broke: deno says so, or runs the call if it can be repeated. */
export function lost(w: Writer): void {
  const { p } = w;
  p.label("lost");
  p.label(Step.closeSocket);
  p.load("a", "frame", Frame.socket);
  p.systemCall("close", "a");
}
