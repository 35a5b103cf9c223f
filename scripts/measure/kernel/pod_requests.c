/*
 * Times the netlink requests of a pod with ptp, beside few and many others: what the
 * kernel takes, whatever program asks.
 *
 *   cc -O2 -o /tmp/pod_requests scripts/measure/kernel/pod_requests.c
 *   sudo /tmp/pod_requests 0 250 1000
 *
 * For each number of others it prints, in microseconds, the median of each request in
 * ROUNDS rounds: beside the veth pairs of so many pods; beside these without IPv6 on the
 * host; and beside no pair, but four IPv6 routes for each of the others. Everything is
 * in network namespaces of its own.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 41, WARM_UP = 5, MOST = 4096 };

enum step { CREATE, ALIAS, UP, SYSCTLS, INSIDE, ADDRESS, ROUTE, LOOK, DELETE, STEPS };

static const char *const STEP_NAMES[STEPS] = {
	"create", "alias", "up", "sysctls", "inside", "address", "route", "look", "delete",
};

struct request {
	struct nlmsghdr header;
	char body[1024];
};

static int host_namespace;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void enter(int namespace)
{
	if (setns(namespace, CLONE_NEWNET) != 0)
		die("setns");
}

/* Creates a namespace, in which this process then is. */
static int new_namespace(void)
{
	if (unshare(CLONE_NEWNET) != 0)
		die("unshare");
	int namespace = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (namespace < 0)
		die("/proc/thread-self/ns/net");
	return namespace;
}

static int open_netlink(void)
{
	int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (netlink < 0)
		die("socket");
	return netlink;
}

static void begin(struct request *request, int type, int flags, const void *fixed,
		  size_t length)
{
	memset(request, 0, sizeof *request);
	request->header.nlmsg_type = type;
	request->header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	memcpy(request->body, fixed, length);
	request->header.nlmsg_len = NLMSG_LENGTH(length);
}

static struct rtattr *add(struct request *request, int type, const void *value,
			  size_t length)
{
	struct rtattr *attribute =
		(void *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
	attribute->rta_type = type;
	attribute->rta_len = RTA_LENGTH(length);
	if (length > 0)
		memcpy(RTA_DATA(attribute), value, length);
	request->header.nlmsg_len =
		NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len);
	return attribute;
}

static void end(struct request *request, struct rtattr *nest)
{
	nest->rta_len = (char *)request + request->header.nlmsg_len - (char *)nest;
}

/* Sends a request, and waits for its acknowledgement. */
static void ask(int netlink, struct request *request)
{
	static char answer[65536];
	if (send(netlink, request, request->header.nlmsg_len, 0) < 0)
		die("send");
	for (;;) {
		ssize_t length = recv(netlink, answer, sizeof answer, 0);
		if (length < 0)
			die("recv");
		struct nlmsghdr *header = (void *)answer;
		for (; NLMSG_OK(header, length); header = NLMSG_NEXT(header, length)) {
			if (header->nlmsg_type != NLMSG_ERROR)
				continue;
			struct nlmsgerr *error = NLMSG_DATA(header);
			if (error->error == 0)
				return;
			errno = -error->error;
			die("the kernel refuses a request");
		}
	}
}

static void write_sysctl(const char *link, const char *name, const char *value)
{
	char path[128];
	snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/%s", link, name);
	int file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0 || write(file, value, strlen(value)) < 0)
		die(path);
	close(file);
}

static void set_link(int netlink, int index, unsigned flags, const char *alias)
{
	struct request request;
	struct ifinfomsg fixed = {
		.ifi_index = index, .ifi_flags = flags, .ifi_change = flags };
	begin(&request, RTM_NEWLINK, 0, &fixed, sizeof fixed);
	if (alias != NULL)
		add(&request, IFLA_IFALIAS, alias, strlen(alias));
	ask(netlink, &request);
}

static void create_pair(int netlink, const char *name, int sandbox)
{
	struct request request;
	struct ifinfomsg fixed = { 0 };
	begin(&request, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &fixed, sizeof fixed);
	add(&request, IFLA_IFNAME, name, strlen(name) + 1);
	struct rtattr *info = add(&request, IFLA_LINKINFO, NULL, 0);
	add(&request, IFLA_INFO_KIND, "veth", 4);
	struct rtattr *data = add(&request, IFLA_INFO_DATA, NULL, 0);
	struct rtattr *peer = add(&request, VETH_INFO_PEER, &fixed, sizeof fixed);
	add(&request, IFLA_IFNAME, "eth0", 5);
	add(&request, IFLA_NET_NS_FD, &sandbox, sizeof sandbox);
	end(&request, peer);
	end(&request, data);
	end(&request, info);
	ask(netlink, &request);
}

static void add_address(int netlink, int index, in_addr_t address)
{
	struct request request;
	struct ifaddrmsg fixed = {
		.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = index };
	begin(&request, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &fixed, sizeof fixed);
	add(&request, IFA_LOCAL, &address, sizeof address);
	ask(netlink, &request);
}

static void add_route(int netlink, int index, int family, const void *destination,
		      unsigned char bits)
{
	struct request request;
	struct rtmsg fixed = { .rtm_family = family, .rtm_dst_len = bits,
		.rtm_table = RT_TABLE_MAIN, .rtm_protocol = RTPROT_BOOT,
		.rtm_scope = family == AF_INET ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
		.rtm_type = RTN_UNICAST };
	begin(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &fixed, sizeof fixed);
	add(&request, RTA_DST, destination, family == AF_INET ? 4 : 16);
	add(&request, RTA_OIF, &index, sizeof index);
	ask(netlink, &request);
}

static void look_up(int netlink, const char *name)
{
	struct request request;
	struct ifinfomsg fixed = { 0 };
	begin(&request, RTM_GETLINK, 0, &fixed, sizeof fixed);
	add(&request, IFLA_IFNAME, name, strlen(name) + 1);
	ask(netlink, &request);
}

static void delete_link(int netlink, int index)
{
	struct request request;
	struct ifinfomsg fixed = { .ifi_index = index };
	begin(&request, RTM_DELLINK, 0, &fixed, sizeof fixed);
	ask(netlink, &request);
}

static double now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

/* Adds the time since `*since` to a step. */
static void note(double took[STEPS], enum step step, double *since)
{
	double now = now_us();
	if (took != NULL)
		took[step] += now - *since;
	*since = now_us();
}

/* Attaches a container as ptp does; returns the index of the host's end. */
static int attach(int host, int sandbox, int number, double took[STEPS])
{
	char name[IFNAMSIZ], alias[64];
	snprintf(name, sizeof name, "veth%08x", number);
	snprintf(alias, sizeof alias, "cni/net1/container%d/eth0", number);
	in_addr_t address = htonl(0x0a000002 + number), gateway = htonl(0xa9fe0101);

	enter(sandbox);
	int inside = open_netlink();
	enter(host_namespace);
	double since = now_us();
	create_pair(host, name, sandbox);
	note(took, CREATE, &since);
	int index = if_nametoindex(name);
	since = now_us();
	set_link(host, index, 0, alias);
	note(took, ALIAS, &since);
	set_link(host, index, IFF_UP, NULL);
	note(took, UP, &since);
	write_sysctl(name, "accept_ra", "0");
	write_sysctl(name, "accept_dad", "0");
	note(took, SYSCTLS, &since);
	enter(sandbox);
	int peer = if_nametoindex("eth0");
	enter(host_namespace);
	since = now_us();
	add_address(inside, peer, address);
	set_link(inside, peer, IFF_UP, NULL);
	note(took, INSIDE, &since);
	add_address(host, index, gateway);
	note(took, ADDRESS, &since);
	add_route(host, index, AF_INET, &address, 32);
	note(took, ROUTE, &since);
	look_up(host, name);
	note(took, LOOK, &since);
	close(inside);
	return index;
}

static int compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;
	return (difference > 0) - (difference < 0);
}

/* Measures one more pod again and again, and prints the medians. */
static void measure(int host, const char *beside, int others)
{
	static double all[STEPS][ROUNDS];
	for (int round = -WARM_UP; round < ROUNDS; round++) {
		double took[STEPS] = { 0 };
		int sandbox = new_namespace();
		enter(host_namespace);
		usleep(30000);
		int index = attach(host, sandbox, others, took);
		usleep(30000);
		double since = now_us();
		delete_link(host, index);
		note(took, DELETE, &since);
		close(sandbox);
		for (int step = 0; step < STEPS && round >= 0; step++)
			all[step][round] = took[step];
	}
	double add_us = 0;
	printf("%-22s %6d", beside, others);
	for (int step = 0; step < STEPS; step++) {
		qsort(all[step], ROUNDS, sizeof(double), compare);
		double median = all[step][ROUNDS / 2];
		printf(" %8.0f", median);
		if (step != DELETE)
			add_us += median;
	}
	printf(" %8.0f\n", add_us);
	fflush(stdout);
}

/* Counts the IPv6 routes of the namespace, of all tables. */
static int count_routes(void)
{
	FILE *file = fopen("/proc/thread-self/net/ipv6_route", "r");
	if (file == NULL)
		die("ipv6_route");
	int count = 0;
	for (int c; (c = fgetc(file)) != EOF;)
		count += c == '\n';
	fclose(file);
	return count;
}

int main(int argc, char *argv[])
{
	static int sandboxes[MOST];
	struct rlimit files = { MOST * 2, MOST * 2 };
	setrlimit(RLIMIT_NOFILE, &files);
	printf("%-22s %6s", "beside", "others");
	for (int step = 0; step < STEPS; step++)
		printf(" %8s", STEP_NAMES[step]);
	printf(" %8s\n", "ADD");
	for (int has_ipv6 = 1; has_ipv6 >= 0; has_ipv6--) {
		host_namespace = new_namespace();
		int host = open_netlink(), there = 0;
		set_link(host, if_nametoindex("lo"), IFF_UP, NULL);
		if (!has_ipv6)
			write_sysctl("default", "disable_ipv6", "1");
		for (int at = 1; at < argc; at++) {
			int others = atoi(argv[at]);
			for (; there < others && there < MOST; there++) {
				sandboxes[there] = new_namespace();
				enter(host_namespace);
				attach(host, sandboxes[there], there, NULL);
			}
			usleep(1500000);
			printf("# %d IPv6 routes\n", count_routes());
			measure(host, has_ipv6 ? "pairs" : "pairs without IPv6", others);
		}
		while (there > 0)
			close(sandboxes[--there]);
		close(host);
	}
	host_namespace = new_namespace();
	int host = open_netlink(), routes = 0;
	int lo = if_nametoindex("lo");
	set_link(host, lo, IFF_UP, NULL);
	for (int at = 1; at < argc; at++) {
		int others = atoi(argv[at]);
		for (; routes < others * 4; routes++) {
			unsigned char destination[16] = { 0xfd, 0, 0, 0, 0, 0, 0, 0,
				0, 0, 0, 0, 0, 0, routes >> 8, routes & 255 };
			add_route(host, lo, AF_INET6, destination, 128);
		}
		printf("# %d IPv6 routes\n", count_routes());
		measure(host, "routes, no pairs", others);
	}
	return 0;
}
