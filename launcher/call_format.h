/*
 * What call.c shares with the node daemon and with the engine. Written by
 * `deno task launcher` from the tables in daemon/wire and cni/call.
 *
 * Tables have no pointers: the code may run at any address.
 */
#ifndef LAUNCHER_CALL_FORMAT_H
#define LAUNCHER_CALL_FORMAT_H

/* Variables that decide who runs a call. */
enum { COMMAND, CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, CNI_PATH, NO_DAEMON, TRACE, VARIABLE_COUNT };
static const char VARIABLE_NAMES[] =
    "CNI_COMMAND=\0"
    "CNI_CONTAINERID=\0"
    "CNI_NETNS=\0"
    "CNI_IFNAME=\0"
    "CNI_PATH=\0"
    "CNI_NO_DAEMON=\0"
    "CNI_TRACE=\0";
/* Commands that a daemon may run, and the variables that they need. */
static const struct {
  char name[8];
  unsigned needs;
} COMMANDS[] = {
    {"ADD", 1u << CNI_CONTAINERID | 1u << CNI_NETNS | 1u << CNI_IFNAME | 1u << CNI_PATH},
    {"CHECK", 1u << CNI_CONTAINERID | 1u << CNI_NETNS | 1u << CNI_IFNAME | 1u << CNI_PATH},
    {"DEL", 1u << CNI_CONTAINERID | 1u << CNI_IFNAME | 1u << CNI_PATH},
    {"GC", 1u << CNI_PATH},
    {"STATUS", 1u << CNI_PATH},
};
enum { COMMAND_COUNT = 5 };

/* A request: the header, the parts, and the end. */
#define MAGIC "cnical44"
#define END "\n"
enum { HEADER_BYTES = 40 };
/* For each part, where the header has its length, and its source. */
#define FOR_EACH_PART(PART) \
  PART(8, identity) \
  PART(16, argv0) \
  PART(24, environment) \
  PART(32, stdin)
enum { STDIN_LENGTH_AT = 32 };
/* How the variables begin that are sent. */
static const char SENT_VARIABLES[] =
    "CNI_\0"
    "PATH=\0"
    "HOME=\0"
    "TMPDIR=\0"
    "XDG_RUNTIME_DIR=\0"
    "DBUS_SYSTEM_BUS_ADDRESS=\0"
    "XTABLES_\0"
    "KUBE\0"
    "NODE_NAME=\0"
    "MULTUS_\0"
    "WHEREABOUTS_\0"
    "SSL_CERT_\0"
    "HTTP_PROXY=\0"
    "HTTPS_PROXY=\0"
    "ALL_PROXY=\0"
    "NO_PROXY=\0"
    "http_proxy=\0"
    "https_proxy=\0"
    "all_proxy=\0"
    "no_proxy=\0"
    "LANG=\0"
    "LANGUAGE=\0"
    "LC_\0"
    "TZ=\0"
    "TRACEPARENT=\0"
    "TRACESTATE=\0"
    "BAGGAGE=\0"
    "OTEL_\0"
    "GODEBUG=\0"
    "GOTRACEBACK=\0";

/* Messages of the daemon, and time limits. */
enum { LOG = 1, SUCCESS = 2, FAILURE = 3, DECLINED = 4, TAKEN = 5, ALIVE = 6, LAST_KIND = 6 };
enum { MAX_MESSAGE = 16777216 };
enum {
  TAKE_MS = 1000,
  SHORT_TAKE_MS = 250,
  SILENCE_MS = 5000,
  TICK_MS = 125,
  TIMEOUT_PERIOD_MS = 60000,
};
enum { MOST_RENEWALS = 12 };

/* Keys of the configuration, and where the daemon listens. */
enum { KEY_SOCKET, KEY_DIRECTORY, KEY_COUNT };
static const char KEYS[] =
    "daemonSocket\0"
    "daemonSocketDir\0";
#define DEFAULT_SOCKET "/run/cni/daemon.sock"
#define SOCKET_SUFFIX "/daemon.sock"
#define OFF_SUFFIX ".off"
#define TIMEOUTS_SUFFIX ".timeouts"
/* Programs that have KEY_DIRECTORY, and the socket that they ask without it. */
static const struct {
  char name[16];
  char socket[48];
} DIRECTORY_PROGRAMS[] = {
    {"multus", "/run/cni/daemon.sock"},
    {"chain", "/run/cni/daemon.sock"},
    {"multus-shim", "/run/multus/daemon.sock"},
};
enum { DIRECTORY_PROGRAM_COUNT = 3 };

/* What the engine is told, as the name of the file that stdin is. */
enum stdin_name { STDIN_NOT_ASKED, STDIN_NO_DAEMON, STDIN_OFF, STDIN_LOCAL, STDIN_TIMEOUT, STDIN_SHORT_TIMEOUT, STDIN_LOST, STDIN_SILENT };
static const char STDIN_NAMES[][16] = {
    "cni-stdin",
    "cni-no-daemon",
    "cni-off",
    "cni-local",
    "cni-timeout",
    "cni-short",
    "cni-lost",
    "cni-silent",
};
enum { LOCAL_FLAG = 1024 };

/* What is printed if stdin cannot be put back; and if an ADD was lost and the
 * engine cannot be told, around the socket's path. */
#define CANNOT_PUT_BACK "{\n    \"cniVersion\": \"1.1.0\",\n    \"code\": 5,\n    \"msg\": \"Cannot keep the configuration: memfd_create(2), pipe2(2) or write(2) failed\"\n}\n"
#define LOST_BEFORE_PATH "{\n    \"cniVersion\": \"1.1.0\",\n    \"code\": 11,\n    \"msg\": \"The node daemon at \\\""
#define LOST_BEHIND_PATH "\\\" went away before it answered\",\n    \"details\": \"parts of the attachment may exist until DEL\"\n}"

#endif
