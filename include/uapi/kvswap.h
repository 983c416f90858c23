/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR MIT */
/*
 * /dev/kvswap: direct I/O between pinned memory and a block device or file.
 *
 * One open file is one context. INFO tells what there is, SETUP binds a store and allocates an
 * arena of pinned memory and two rings, mmap() makes the three of them visible, ENTER submits and
 * waits. Everything hangs off the file: the last close cancels what has not started, waits for what
 * has, and gives all of it back.
 *
 * Positions in the store and in the arena, and lengths of requests, are counted in units of 512
 * bytes, the smallest block there is, so that records of different sizes live in one context. What
 * a unit means (a record, a slot, part of a staging buffer) is the business of user space.
 *
 * Rules of the ABI: every ioctl argument begins with its own size; a larger size than the kernel
 * knows is accepted when the rest is zero (else E2BIG), a smaller one when it is a size that the
 * argument once had. Unknown flags and reserved members that are not zero are refused (EINVAL).
 * Structures grow by appending only.
 *
 * Changes
 *   1  first version
 */
#ifndef _UAPI_KVSWAP_H
#define _UAPI_KVSWAP_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define KVSWAP_ABI 1
#define KVSWAP_UNIT_SHIFT 9
#define KVSWAP_UNIT (1u << KVSWAP_UNIT_SHIFT)

/*
 * ioctl numbers. They do not carry the size, which the argument itself does. Each returns 0 or:
 *   EINVAL      size, flag, reserved member or value that no kernel of this version takes
 *   E2BIG       argument longer than this kernel knows, and not zero there
 *   EFAULT      argument not readable or not writable
 *   ENOTTY      no such ioctl
 *   ENXIO       ENTER before SETUP
 * and what is listed with each.
 */
#define KVSWAP_IOC_TYPE 0xBC
#define KVSWAP_IOC_INFO _IO(KVSWAP_IOC_TYPE, 0x00)
#define KVSWAP_IOC_SETUP _IO(KVSWAP_IOC_TYPE, 0x01)
#define KVSWAP_IOC_ENTER _IO(KVSWAP_IOC_TYPE, 0x02)
#define KVSWAP_IOC_STATS _IO(KVSWAP_IOC_TYPE, 0x03)

/**
 * struct kvswap_info - ioctl(KVSWAP_IOC_INFO)
 * @size: sizeof(struct kvswap_info)
 * @abi: KVSWAP_ABI of the module
 * @features: KVSWAP_F_* that this module and kernel have
 * @ops: bit n is set when operation n exists
 * @entries_max: most ring entries that SETUP grants
 * @request_units_max: longest READ or WRITE, in units
 * @pinned_bytes_max: the module's cap on pinned memory, all contexts together
 * @pinned_bytes: pinned now, all contexts together
 *
 * Has no side effects, works before and after SETUP.
 */
struct kvswap_info {
	__u32 size;
	__u32 abi;
	__aligned_u64 features;
	__aligned_u64 ops;
	__u32 entries_max;
	__u32 request_units_max;
	__aligned_u64 pinned_bytes_max;
	__aligned_u64 pinned_bytes;
};

#define KVSWAP_F_BLOCK (1ull << 0) /* block devices */
#define KVSWAP_F_FILE (1ull << 1)  /* regular files */

/* Flags of SETUP. */
#define KVSWAP_SETUP_RDONLY (1u << 0) /* READ and NOP only; fd may be read-only */

/* Kinds of store. */
#define KVSWAP_STORE_BLOCK 0
#define KVSWAP_STORE_FILE 1

/**
 * struct kvswap_setup - ioctl(KVSWAP_IOC_SETUP), once per context
 * @size: sizeof(struct kvswap_setup)
 * @flags: KVSWAP_SETUP_*
 * @fd: the store: a block device or regular file, open with O_DIRECT and (without RDONLY)
 *	O_RDWR, not O_APPEND. A block device is claimed exclusively until the context ends, so @fd
 *	itself must not be open with O_EXCL. The caller may close it afterwards.
 * @entries: in: requests in flight and not yet consumed at most; out: granted, a power of two
 * @store_offset: first byte of the range used, a multiple of @block_bytes
 * @store_bytes: in: length of the range, a multiple of @block_bytes, 0: to the end; out:
 *	granted. A file is never made longer.
 * @arena_bytes: in: bytes of pinned memory, > 0; out: granted, rounded up to whole pages or,
 *	from 1 MiB on, 64 KiB
 * @write_depth: in: most writes under way at a time, the others wait their turn behind reads,
 *	0: a default; out: granted
 * @store_kind: out: KVSWAP_STORE_*
 * @block_bytes: out: block of the store; offsets in store and arena and lengths are multiples of
 *	it
 * @request_units_max: out: longest READ or WRITE
 * @run_units_max: out: neighbouring requests are put together up to this length
 * @chunk_bytes: out: the arena consists of physically contiguous, naturally aligned pieces of
 *	this size at least
 * @arena_offset: out: where to mmap the arena, @arena_bytes long or less, shared, readable and
 *	writable
 * @sq_offset: out: where to mmap struct kvswap_sq, @sq_bytes, shared, readable and writable
 * @sq_bytes: out
 * @cq_offset: out: where to mmap struct kvswap_cq, @cq_bytes, shared, readable only
 * @cq_bytes: out
 *
 * The arena is zero at first, is not inherited over fork and does not appear in core dumps. It, the
 * rings and the requests count against RLIMIT_MEMLOCK of the caller (unless CAP_IPC_LOCK) and
 * against the module's cap.
 *
 * Errors: EALREADY set up before; EBADF @fd is not open, or not for what @flags asks; ENOTBLK
 * neither a block device nor a regular file; EBUSY block device mounted or claimed by someone else;
 * EROFS medium is read-only and RDONLY is not set; EOPNOTSUPP zoned device, or file system without
 * direct I/O; ERANGE range outside of the store; ENOMEM no memory, or over RLIMIT_MEMLOCK; ENOSPC
 * over the module's cap; EINTR a signal came first.
 */
struct kvswap_setup {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 entries;
	__aligned_u64 store_offset;
	__aligned_u64 store_bytes;
	__aligned_u64 arena_bytes;
	__u32 write_depth;
	__u32 store_kind;
	__u32 block_bytes;
	__u32 request_units_max;
	__u32 run_units_max;
	__u32 chunk_bytes;
	__aligned_u64 arena_offset;
	__aligned_u64 sq_offset;
	__aligned_u64 sq_bytes;
	__aligned_u64 cq_offset;
	__aligned_u64 cq_bytes;
};

/**
 * struct kvswap_enter - ioctl(KVSWAP_IOC_ENTER)
 * @size: sizeof(struct kvswap_enter)
 * @flags: 0
 * @to_submit: take up to this many submissions from the ring; fewer are there: all of them
 * @min_complete: then wait until so many completions are there to be consumed, or nothing is
 *	under way
 * @deadline_ns: wait no longer than this, absolute CLOCK_MONOTONIC; 0: no limit
 * @submitted: out: submissions taken from the ring, refused ones (which complete with an
 *	error) included
 * @available: out: completions there to be consumed
 *
 * The out members are written on success and on EAGAIN, EINTR, ETIME. Any number of threads may
 * call at a time. Requests go out in the order of the ring, so put urgent ones first; neighbours in
 * the ring that are also neighbours in the store and in the arena, of one operation, priority and
 * flags, travel as one and share their fate: when one of them fails, all of the run report the
 * error.
 *
 * Errors: EAGAIN nothing could be taken because every completion slot is spoken for, and nothing
 * was waited for; ETIME @deadline_ns passed first; EINTR a signal came first (calling
 * again submits nothing twice); EBADFD an index in
 * the rings is impossible.
 */
struct kvswap_enter {
	__u32 size;
	__u32 flags;
	__u32 to_submit;
	__u32 min_complete;
	__aligned_u64 deadline_ns;
	__u32 submitted;
	__u32 available;
};

/*
 * Operations. A request sees the effect of every WRITE, WRITE_ZEROES and DISCARD that was submitted
 * to this context before it and overlaps it in the store: it waits for those. A WRITE is not
 * ordered against a READ that is under way. Parts of the arena that take part in a request are the
 * kernel's until its completion.
 */
#define KVSWAP_OP_NOP 0
#define KVSWAP_OP_READ 1	 /* store -> arena */
#define KVSWAP_OP_WRITE 2	 /* arena -> store */
#define KVSWAP_OP_FLUSH 3	 /* writes submitted before are on stable storage */
#define KVSWAP_OP_DISCARD 4	 /* the range is not needed; reads give anything */
#define KVSWAP_OP_WRITE_ZEROES 5 /* the range reads as zeroes */
#define KVSWAP_OP_CANCEL 6	 /* takes back what has user_data @arg and has not started */
#define KVSWAP_OP_END 7

/* Flags of a submission. */
#define KVSWAP_SQE_FUA (1u << 0) /* durable when it completes */

/**
 * struct kvswap_sqe - a submission, 32 bytes
 * @op: KVSWAP_OP_*
 * @flags: KVSWAP_SQE_*
 * @ioprio: as of ioprio_set(2), 0: the caller's; the real-time class needs CAP_SYS_NICE or
 *	CAP_SYS_ADMIN
 * @units: length; a multiple of the store's block
 * @store: first unit, from the beginning of the range bound by SETUP; a multiple of the
 *	store's block
 * @arena: first unit in the arena (READ, WRITE), a multiple of the store's block, else 0
 * @__reserved: 0
 * @arg: of CANCEL, else 0 (in place of @store)
 * @user_data: handed back
 *
 * Copied once, then checked. Completes with one of:
 *   0           all of it was done (CANCEL: at least one request was cancelled)
 *   -EINVAL     unknown operation, flag, reserved member, or ioprio; a member set that the
 *               operation does not use
 *   -ENOTBLK    not a multiple of the store's block, or 0 units
 *   -EMSGSIZE   longer than request_units_max
 *   -ERANGE     outside of the store
 *   -EFAULT     outside of the arena
 *   -EBUSY      overlaps a request under way in the arena
 *   -EROFS      write on a context set up with RDONLY
 *   -EPERM      ioprio that the caller may not use
 *   -ECANCELED  CANCEL took it back before it started
 *   -ENOENT     CANCEL found nothing that has not started
 *   -EOPNOTSUPP the store cannot discard or write zeroes -EIO, -ENODATA, -ENOSPC, ...  what the
 *   device or file system said; -EIO also for a short transfer (file truncated,
 *               device gone). The content of the arena range of a failed READ is undefined.
 */
struct kvswap_sqe {
	__u8 op;
	__u8 flags;
	__u16 ioprio;
	__u32 units;
	union {
		__aligned_u64 store;
		__aligned_u64 arg;
	};
	__u32 arena;
	__u32 __reserved;
	__aligned_u64 user_data;
};

/**
 * struct kvswap_cqe - a completion, 16 bytes
 * @user_data: of the submission
 * @result: 0 or -errno, see struct kvswap_sqe
 * @latency_ns: from being taken off the ring to completion; 2^32 - 1: that or longer
 */
struct kvswap_cqe {
	__aligned_u64 user_data;
	__s32 result;
	__u32 latency_ns;
};

/**
 * struct kvswap_sq - what user space writes; entry i lives at sqes[i & (entries - 1)]
 * @tail: index after the last submission; written by user space with release semantics after
 *	the entries, read by the kernel with acquire in ENTER
 * @cq_head: index of the first completion not yet consumed; written by user space with release
 *	semantics after reading the entries, read by the kernel with acquire
 *
 * Indices run freely and wrap at 2^32.
 */
struct kvswap_sq {
	__u32 tail;
	__u32 __reserved0[15];
	__u32 cq_head;
	__u32 __reserved1[15];
	struct kvswap_sqe sqes[];
};

/**
 * struct kvswap_cq - what the kernel writes; entry i lives at cqes[i & (entries - 1)]
 * @tail: index after the last completion; written by the kernel with release semantics after
 *	the entries, read by user space with acquire
 * @sq_head: index of the first submission not yet taken; written by the kernel with release
 *	semantics after copying the entries, read by user space with acquire before reusing them
 *
 * A completion's place is set aside when its submission is taken: the ring cannot overflow.
 */
struct kvswap_cq {
	__u32 tail;
	__u32 __reserved0[15];
	__u32 sq_head;
	__u32 __reserved1[15];
	struct kvswap_cqe cqes[];
};

/**
 * struct kvswap_stats - ioctl(KVSWAP_IOC_STATS), of this context since SETUP
 * @size: sizeof(struct kvswap_stats)
 * @in_flight: submissions taken and not yet completed
 * @reads: completed without error, likewise the next three
 * @writes: WRITE and WRITE_ZEROES
 * @discards: DISCARD
 * @flushes: FLUSH
 * @read_units: of reads
 * @written_units: of writes
 * @merged: requests that travelled with a neighbour before them
 * @deferred: requests that had to wait for a write or for write_depth
 * @refused: submissions that failed a check
 * @errors: requests that the store failed
 * @cancelled: requests taken back by CANCEL
 * @read_ns: sum of the latencies of reads
 * @write_ns: sum of the latencies of writes
 *
 * All zero before SETUP.
 */
struct kvswap_stats {
	__u32 size;
	__u32 in_flight;
	__aligned_u64 reads;
	__aligned_u64 writes;
	__aligned_u64 discards;
	__aligned_u64 flushes;
	__aligned_u64 read_units;
	__aligned_u64 written_units;
	__aligned_u64 merged;
	__aligned_u64 deferred;
	__aligned_u64 refused;
	__aligned_u64 errors;
	__aligned_u64 cancelled;
	__aligned_u64 read_ns;
	__aligned_u64 write_ns;
};

#endif
