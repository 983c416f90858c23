/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints: a submission taken, a run started, a request completed. Laid out as TRACE_EVENTs
 * are, which neither clang-format nor checkpatch knows.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvswap

#if !defined(KVSWAP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KVSWAP_TRACE_H

#include <linux/tracepoint.h>

#include "context.h"

/* clang-format off */
#define kvswap_show_op(op) __print_symbolic(op, \
	{ KVSWAP_OP_NOP, "nop" }, { KVSWAP_OP_READ, "read" }, { KVSWAP_OP_WRITE, "write" }, \
	{ KVSWAP_OP_FLUSH, "flush" }, { KVSWAP_OP_DISCARD, "discard" }, \
	{ KVSWAP_OP_WRITE_ZEROES, "write_zeroes" }, { KVSWAP_OP_CANCEL, "cancel" })

TRACE_EVENT(kvswap_submit,
	TP_PROTO(const struct kvswap_ctx *ctx, const struct kvswap_sqe *sqe, int result),
	TP_ARGS(ctx, sqe, result),
	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(u8, op)
		__field(u8, flags)
		__field(u16, ioprio)
		__field(u32, units)
		__field(u32, arena)
		__field(int, result)
		__field(u64, store)
		__field(u64, user_data)
	),
	TP_fast_assign(
		__entry->pid = ctx->pid;
		__entry->op = sqe->op;
		__entry->flags = sqe->flags;
		__entry->ioprio = sqe->ioprio;
		__entry->units = sqe->units;
		__entry->arena = sqe->arena;
		__entry->result = result;
		__entry->store = sqe->store;
		__entry->user_data = sqe->user_data;
	),
	TP_printk("pid=%d %s store=%llu units=%u arena=%u flags=%#x ioprio=%#x data=%#llx result=%d",
		  __entry->pid, kvswap_show_op(__entry->op), __entry->store, __entry->units,
		  __entry->arena, __entry->flags, __entry->ioprio, __entry->user_data,
		  __entry->result)
);

TRACE_EVENT(kvswap_issue,
	TP_PROTO(const struct kvswap_req *req),
	TP_ARGS(req),
	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(u8, op)
		__field(u32, units)
		__field(u64, store)
	),
	TP_fast_assign(
		__entry->pid = req->ctx->pid;
		__entry->op = req->sqe.op;
		__entry->units = req->run_units;
		__entry->store = req->sqe.store;
	),
	TP_printk("pid=%d %s store=%llu units=%u", __entry->pid, kvswap_show_op(__entry->op),
		  __entry->store, __entry->units)
);

TRACE_EVENT(kvswap_complete,
	TP_PROTO(const struct kvswap_req *req, int result, u64 latency_ns),
	TP_ARGS(req, result, latency_ns),
	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(u8, op)
		__field(u32, units)
		__field(int, result)
		__field(u64, store)
		__field(u64, user_data)
		__field(u64, latency_ns)
	),
	TP_fast_assign(
		__entry->pid = req->ctx->pid;
		__entry->op = req->sqe.op;
		__entry->units = req->sqe.units;
		__entry->result = result;
		__entry->store = req->sqe.store;
		__entry->user_data = req->sqe.user_data;
		__entry->latency_ns = latency_ns;
	),
	TP_printk("pid=%d %s store=%llu units=%u user_data=%#llx result=%d latency_ns=%llu",
		  __entry->pid, kvswap_show_op(__entry->op), __entry->store, __entry->units,
		  __entry->user_data, __entry->result, __entry->latency_ns)
);
/* clang-format on */

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
