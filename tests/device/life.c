/* SPDX-License-Identifier: MIT */
/*
 * Ends of all kinds: dup, a file passed on, close and kill -9 with requests under way, storms,
 * unloading.
 */
#include <sys/socket.h>
#include <sys/syscall.h>

#include "dev.h"
#include "dm.h"

/* Up to 8 requests, as far as there is room in the ring. */
static void submit_some(struct dev *d, uint64_t *seed)
{
	uint32_t room = d->setup.entries -
			(d->sq->tail - __atomic_load_n(&d->cq->sq_head, __ATOMIC_ACQUIRE));

	for (uint32_t i = 0; i < 8 && i < room; i++) {
		struct kvswap_sqe sqe = {
			.op = dev_random(seed) % 3 ? KVSWAP_OP_READ : KVSWAP_OP_WRITE,
			.units = 8 << dev_random(seed) % 5,
			.store = 8 * (dev_random(seed) % 1000),
			.arena = 8 * (dev_random(seed) % 200),
		};

		dev_push(d, &sqe);
	}
	dev_enter(d, 8, 0, 0, NULL);
}

/* dup and fork share the context: it lives as long as any of them. */
static void shared(const char *path)
{
	struct dev d;
	int fd, status;
	pid_t pid;

	dev_start(&d, path, 16, 1 << 20);
	fd = dup(d.fd);
	CHECK(fd >= 0 && !close(d.fd));
	d.fd = fd;
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 0, 0, 8), 0);
	pid = fork();
	if (!pid) {
		CHECK(!dev_enter(&d, 0, 0, 0, NULL));
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_READ, 0, 0, 8), 0);
	dev_stop(&d);
}

static void send_fd(int sock, int fd)
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec vec = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &vec,
			      .msg_iovlen = 1,
			      .msg_control = space,
			      .msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	CHECK(sendmsg(sock, &msg, 0) == 1);
}

static int receive_fd(int sock)
{
	char space[CMSG_SPACE(sizeof(int))], byte;
	struct iovec vec = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &vec,
			      .msg_iovlen = 1,
			      .msg_control = space,
			      .msg_controllen = sizeof(space) };
	int fd;

	CHECK(recvmsg(sock, &msg, 0) == 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* A context set up by one process, used by another after the first has ended. */
static void passed_on(const char *path)
{
	int pair[2], status;
	struct dev d;
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (!pid) {
		dev_start(&d, path, 16, 1 << 20);
		send_fd(pair[0], d.fd);
		CHECK(write(pair[0], &d.setup, sizeof(d.setup)) == sizeof(d.setup));
		_exit(0);
	}
	memset(&d, 0, sizeof(d));
	d.fd = receive_fd(pair[1]);
	CHECK(read(pair[1], &d.setup, sizeof(d.setup)) == sizeof(d.setup));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	d.sq = mmap(NULL, d.setup.sq_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd,
		    d.setup.sq_offset);
	d.cq = mmap(NULL, d.setup.cq_bytes, PROT_READ, MAP_SHARED, d.fd, d.setup.cq_offset);
	d.arena = mmap(NULL, d.setup.arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd,
		       d.setup.arena_offset);
	CHECK(d.sq != MAP_FAILED && d.cq != MAP_FAILED && d.arena != MAP_FAILED);
	CHECK_EQ(dev_rw(&d, KVSWAP_OP_WRITE, 8, 0, 8), 0);
	dev_stop(&d);
}

/* Close waits for what has started and takes back what has not. */
static void closed_in_flight(const char *path)
{
	uint64_t seed = 5;
	char slow[64];
	struct dev d;

	dm_delay(path, 80, 80, slow, sizeof(slow));
	for (int i = 0; i < 5; i++) {
		dev_start_depth(&d, slow, 64, 1 << 20, 1 + i % 2);
		for (int k = 0; k < 6; k++)
			submit_some(&d, &seed);
		dev_stop(&d);
	}
	dm_remove(slow);
}

static void busy_until_killed(const char *path, int round)
{
	uint64_t seed = round + 1;
	struct dev d;

	if (dev_try(&d, path, 64, 2 << 20, round % 7))
		_exit(errno != EBUSY);
	for (;;) {
		struct kvswap_cqe cqe;

		submit_some(&d, &seed);
		if (dev_random(&seed) % 2)
			dev_enter(&d, 0, 1 + dev_random(&seed) % 8, 0, NULL);
		while (dev_reap(&d, &cqe))
			;
	}
}

static void killed(const char *path)
{
	int status;

	for (int round = 0; round < 200; round++) {
		pid_t pid = fork();

		if (!pid)
			busy_until_killed(path, round);
		usleep(1000 + round * 97 % 9000);
		CHECK(!kill(pid, SIGKILL));
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFSIGNALED(status));
	}
}

static void storm(const char *path)
{
	int status;

	for (int child = 0; child < 4; child++) {
		if (fork())
			continue;
		for (int i = 0; i < 100; i++) {
			uint64_t seed = child * 1000 + i + 1;
			struct dev d;

			if (dev_try(&d, path, 16, 256 << 10, 0)) {
				CHECK(errno == EBUSY);
				continue;
			}
			submit_some(&d, &seed);
			dev_stop(&d);
		}
		_exit(0);
	}
	for (int child = 0; child < 4; child++)
		CHECK(wait(&status) > 0 && status == 0);
}

static int unload(void)
{
	return syscall(SYS_delete_module, "kvswap", O_NONBLOCK);
}

static int load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	CHECK(fd >= 0);
	ret = syscall(SYS_finit_module, fd, "", 0);
	close(fd);
	return ret;
}

static void unloaded(const char *path, const char *ko)
{
	struct dev d;

	dev_start(&d, path, 16, 256 << 10);
	CHECK_ERR(unload(), EWOULDBLOCK);
	close(d.fd);
	/* Still mapped. */
	CHECK_ERR(unload(), EWOULDBLOCK);
	munmap(d.sq, d.setup.sq_bytes);
	munmap((void *)d.cq, d.setup.cq_bytes);
	CHECK_ERR(unload(), EWOULDBLOCK);
	munmap(d.arena, d.setup.arena_bytes);
	for (int i = 0; i < 50; i++) {
		CHECK(!unload());
		CHECK(!load(ko));
		close(dev_open());
	}
}

int main(void)
{
	const char *path = dev_store("KV_512");

	shared(path);
	passed_on(path);
	closed_in_flight(path);
	killed(path);
	storm(path);
	if (!access("/t/kvswap.ko", F_OK))
		unloaded(path, "/t/kvswap.ko");
	return 0;
}
