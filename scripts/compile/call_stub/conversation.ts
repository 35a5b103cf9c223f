/**
 * Steps of the call stub: the request to the daemon, and its answer.
 *
 * @module
 */

import {
  HURRIED_TAKE_MS,
  MAX_MESSAGE,
  MessageAt,
  MessageKind,
  SILENCE_MS,
  TAKE_MS,
} from "../../../daemon/protocol/call_format.ts";
import { LOSS_PERIOD_MS } from "../../../daemon/protocol/daemon_losses.ts";
import { LOSSES, OFF } from "../../../daemon/protocol/daemon_socket.ts";
import { StdinName } from "../../../daemon/protocol/stdin_name.ts";
import { ADDRESS_PATH, Frame, Memory } from "./frame.ts";
import type { Argument } from "./processor.ts";
import { endRequest } from "./request.ts";
import { Step, TIMEOUT_MS, type Writer } from "./writer.ts";

const CANNOT_PRINT = "Cannot write to stdout\n";

/** Source: Linux fcntl.h, net.h, poll.h, socket.h. */
const AT_FDCWD = 0xffff_ff9c, F_OK = 0;
const AF_UNIX = 1, SOCK_STREAM_NONBLOCK_CLOEXEC = 0x80801;
const SOL_SOCKET = 1, SO_PEERCRED = 17, UCRED_BYTES = 12;
const MSG_NOSIGNAL = 0x4000, SHUT_RD = 0;
const POLLIN = 1, POLLOUT = 4;
const STDOUT = 1, STDERR = 2;
/** Source: Linux signal.h: `struct sigaction` begins with the handler; SIG_IGN is 1. */
const SIGPIPE = 13, SIGSET_BYTES = 8, IGNORE = "\x01".padEnd(32, "\0");

/** Source: Linux asm-generic/stat.h, asm/stat.h, time.h: `st_mtime` of `struct stat`. */
const MTIME = 88, CLOCK_REALTIME = 0;

/** The largest kind of a message. */
const MAX_KIND = Math.max(...Object.values(MessageKind));

/** How long the stub waits, in units of {@linkcode TIMEOUT_MS}. */
const TAKE_TIMEOUTS = TAKE_MS / TIMEOUT_MS,
  HURRIED_TIMEOUTS = HURRIED_TAKE_MS / TIMEOUT_MS,
  SILENCE_TIMEOUTS = SILENCE_MS / TIMEOUT_MS;

/** Where the kind of a message is, and the number of bytes that follow. */
const KIND = Frame.message + MessageAt.kind,
  LENGTH = Frame.message + MessageAt.length;

/** Bytes that are sent, received or written. */
const BYTES = { at: "a", left: "b" } as const;

/** Connects to the daemon, unless it is turned off, nobody is there or it is another user's. */
export function connect(w: Writer): void {
  const { p } = w;
  findOffFile(w);
  using r = w.step("connect", { socket: "a", length: "b" });
  p.systemCall("socket", AF_UNIX, SOCK_STREAM_NONBLOCK_CLOEXEC, 0);
  p.jumpIfNegative("result", Step.putBack);
  p.store("result", "frame", Frame.socket);
  // A standard stream that was closed must not become the socket.
  p.jumpIf("result", "<", STDERR + 1, Step.closeSocket);
  setName(w, StdinName.nobody);
  p.load(r.socket, "frame", Frame.socket);
  p.load(r.length, "frame", Frame.addressLength);
  p.systemCall("connect", r.socket, { frame: Frame.address }, r.length);
  p.jumpIfNegative("result", Step.closeSocket);
  checkListener(w);
}

/** Sets what deno is told; changes c. */
function setName(w: Writer, name: string): void {
  using r = w.step(`tell deno "${name}"`, { text: "c" });
  w.setText(r.text, name, Frame.stdinName);
}

/** Leaves the call to deno if there is the file that turns the daemon off. */
function findOffFile(w: Writer): void {
  const { p } = w;
  using _ = w.step("find the file that turns the daemon off", {});
  withSuffix(
    w,
    OFF,
    (path) => p.systemCall("faccessat", AT_FDCWD, path, F_OK),
  );
  setName(w, StdinName.off);
  p.jumpIf("result", "==", 0, Step.putBack);
  setName(w, StdinName.notAsked);
}

/** Makes a system call with another file beside the socket; changes a, b and c. */
function withSuffix(
  w: Writer,
  suffix: string,
  call: (path: Argument) => void,
): void {
  const { p } = w;
  using r = w.step(`append "${suffix}"`, { from: "a", end: "b", length: "c" });
  const character = r.length;
  p.frameAddress(r.end, Frame.address - 1);
  p.load(r.length, "frame", Frame.addressLength);
  p.add(r.end, r.length); // the path's NUL
  p.labelAddress(r.from, w.text(suffix));
  w.copyText(r.from, r.end, character);
  p.storeByte(character, r.end);
  call({ frame: Frame.address + ADDRESS_PATH });
  p.addNumber(r.end, -suffix.length);
  p.storeByte(character, r.end); // still 0
}

/** Leaves the call to deno unless root or this process's user listens. */
function checkListener(w: Writer): void {
  const { p } = w;
  using r = w.step("check who listens", { socket: "a", user: "b" });
  p.number(r.user, UCRED_BYTES);
  p.store(r.user, "frame", Frame.credentialsLength);
  p.load(r.socket, "frame", Frame.socket);
  const credentials = { frame: Frame.credentials };
  const length = { frame: Frame.credentialsLength };
  p.systemCall(
    "getsockopt",
    r.socket,
    SOL_SOCKET,
    SO_PEERCRED,
    credentials,
    length,
  );
  p.jumpIfNegative("result", Step.closeSocket);
  // The lower half is the process, the upper one the user.
  p.load(r.user, "frame", Frame.credentials);
  p.shiftRight(r.user, 32);
  p.jumpIf(r.user, "==", 0, "trusted");
  p.systemCall("geteuid");
  p.jumpIf(r.user, "!=", "result", Step.closeSocket);
  p.label("trusted");
}

/** Sends the request, and waits until the daemon takes the call. */
export function send(w: Writer): void {
  const { p } = w;
  using r = w.step("send", { ...BYTES, found: "c" });
  // Until it takes the call, it has no part in it.
  setName(w, StdinName.refused);
  setPatience(w);
  const { request, length } = endRequest(w);
  sendAll(w, { at: request, left: length }, Step.closeSocket, "late");

  using _ = w.step("wait until it is taken", {});
  p.frameAddress(r.at, Frame.message);
  p.number(r.left, MessageAt.bytes);
  receiveAll(w, r, Step.closeSocket, "late");
  p.load(r.found, "frame", KIND);
  p.jumpIf(r.found, "!=", MessageKind.taken, Step.closeSocket);
  p.load(r.found, "frame", LENGTH);
  p.jumpIf(r.found, "!=", 0, Step.closeSocket);
  // From here on the daemon runs the call, and nobody knows what became of it.
  setName(w, StdinName.lost);
}

/** Begins the time limit for `taken`: a shorter one soon after another call has waited in vain. */
function setPatience(w: Writer): void {
  const { p } = w;
  using r = w.step("set patience", {
    ...{ modifiedAt: "a", now: "b", status: "d", offset: "e" },
  });
  const patient = w.newLabel("patient");
  w.setLimit(TAKE_TIMEOUTS);
  w.setText(r.modifiedAt, StdinName.late, Frame.lateName);
  w.memory(r.status, Memory.message, r.offset);
  withSuffix(
    w,
    LOSSES,
    (path) => p.systemCall("newfstatat", AT_FDCWD, path, r.status, 0),
  );
  p.jumpIfNegative("result", patient);
  p.load(r.modifiedAt, r.status, MTIME);
  p.systemCall("clock_gettime", CLOCK_REALTIME, r.status);
  p.load(r.now, r.status, 0);
  p.subtract(r.now, r.modifiedAt);
  // Of a time to come, this is a large number.
  p.jumpIf(r.now, ">=", LOSS_PERIOD_MS / 1000, patient);
  w.setLimit(HURRIED_TIMEOUTS);
  w.setText(r.modifiedAt, StdinName.hurried, Frame.lateName);
  p.label(patient);
}

/** Prints what the daemon says. */
export function receive(w: Writer): void {
  const { p } = w;
  using r = w.step("receive", { ...BYTES, kind: "c" });
  // As in deno: a pipe that nobody reads is an error, and does not end the process.
  const ignore = { label: w.text(IGNORE) };
  p.systemCall("rt_sigaction", SIGPIPE, ignore, 0, SIGSET_BYTES);
  p.label("receive");
  w.setLimit(SILENCE_TIMEOUTS);
  p.frameAddress(r.at, Frame.message);
  p.number(r.left, MessageAt.bytes);
  receiveAll(w, r, "lost", "silent");
  p.load(r.kind, "frame", KIND);
  p.jumpIf(r.kind, "==", MessageKind.notMine, "refused");
  p.jumpIf(r.kind, "==", 0, "lost");
  p.jumpIf(r.kind, ">=", MAX_KIND + 1, "lost");
  p.jumpIf(r.kind, "==", MessageKind.taken, "lost");
  p.load(r.left, "frame", LENGTH);
  p.number(r.at, MAX_MESSAGE + 1);
  p.jumpIf(r.left, ">=", r.at, "lost");
  w.memory(r.at, Memory.message, r.kind);
  receiveAll(w, r, "lost", "silent");
  p.load(r.kind, "frame", KIND);
  p.jumpIf(r.kind, "==", MessageKind.alive, "receive");
  w.memory(r.at, Memory.message, r.kind);
  p.load(r.left, "frame", LENGTH);
  p.load(r.kind, "frame", KIND);
  p.jumpIf(r.kind, "==", MessageKind.stderr, "log text");

  using end = w.step("print the answer", { status: r.kind });
  writeAll(w, STDOUT, "cannot print");
  p.load(end.status, "frame", KIND);
  p.addNumber(end.status, -MessageKind.success); // 0 or 1
  p.systemCall("exit_group", end.status);

  using _log = w.step("print log text", {});
  p.label("log text");
  writeAll(w, STDERR, "receive");
  p.jump("receive");

  for (const outcome of ["refused", "silent"] as const) {
    p.label(outcome);
    setName(w, StdinName[outcome]);
    p.jump(Step.closeSocket);
  }
  using late = w.step("late", { socket: "a", text: "c" });
  p.label("late");
  p.load(late.socket, "frame", Frame.socket);
  p.systemCall("shutdown", late.socket, SHUT_RD);
  const message = { frame: Frame.message };
  p.systemCall("read", late.socket, message, MessageAt.bytes);
  p.jumpIf("result", "==", MessageAt.bytes, "silent");
  p.load(late.text, "frame", Frame.lateName);
  p.store(late.text, "frame", Frame.stdinName);
  p.jump(Step.closeSocket);

  using _cannot = w.step("cannot print", {});
  p.label("cannot print");
  const text = { label: w.text(CANNOT_PRINT) };
  p.systemCall("write", STDERR, text, CANNOT_PRINT.length);
  p.systemCall("exit_group", 1);
}

/** Sends bytes; jumps if the daemon is gone or its time is over. */
function sendAll(
  w: Writer,
  { at, left }: typeof BYTES,
  failed: string,
  expired: string,
): void {
  const { p } = w;
  using r = w.step("send all", { socket: "c" });
  w.loop((next, end) => {
    p.jumpIf(left, "==", 0, end);
    p.load(r.socket, "frame", Frame.socket);
    p.systemCall("sendto", r.socket, at, left, MSG_NOSIGNAL, 0, 0);
    w.onFailure({
      fd: r.socket,
      events: POLLOUT,
      again: next,
      failed,
      expired,
    });
    p.add(at, "result");
    p.subtract(left, "result");
    p.jump(next);
  });
}

/** Receives bytes; jumps if the daemon is gone or its time is over. */
function receiveAll(
  w: Writer,
  { at, left }: typeof BYTES,
  gone: string,
  expired: string,
): void {
  const { p } = w;
  using r = w.step("receive all", { socket: "c" });
  w.loop((next, end) => {
    p.jumpIf(left, "==", 0, end);
    p.load(r.socket, "frame", Frame.socket);
    p.systemCall("read", r.socket, at, left);
    p.jumpIf("result", "==", 0, gone);
    w.onFailure({
      fd: r.socket,
      events: POLLIN,
      again: next,
      failed: gone,
      expired,
    });
    p.add(at, "result");
    p.subtract(left, "result");
    p.jump(next);
  });
}

/** Writes {@linkcode BYTES}. */
function writeAll(w: Writer, fd: number, failed: string): void {
  const { p } = w;
  using r = w.step("write all", BYTES);
  w.loop((next, end) => {
    p.jumpIf(r.left, "==", 0, end);
    p.systemCall("write", fd, r.at, r.left);
    w.onFailure({ fd, events: POLLOUT, again: next, failed });
    p.add(r.at, "result");
    p.subtract(r.left, "result");
    p.jump(next);
  });
}

/** The connection broke: deno says so, or runs the call if it can be repeated. */
export function lost(w: Writer): void {
  const { p } = w;
  using r = w.step("close the socket", { socket: "a" });
  p.label("lost");
  p.label(Step.closeSocket);
  p.load(r.socket, "frame", Frame.socket);
  p.systemCall("close", r.socket);
}
