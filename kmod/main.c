// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module: /dev/kvswap, the worker that starts deferred requests, and what debugfs shows of the
 * contexts. contexts_lock is for the list alone.
 */
#include <linux/debugfs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "context.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

struct workqueue_struct *kvswap_wq;

static struct dentry *kvswap_debugfs;
static LIST_HEAD(kvswap_contexts);
static DEFINE_MUTEX(contexts_lock);

void kvswap_contexts_add(struct kvswap_ctx *ctx)
{
	mutex_lock(&contexts_lock);
	list_add_tail(&ctx->contexts, &kvswap_contexts);
	mutex_unlock(&contexts_lock);
}

void kvswap_contexts_del(struct kvswap_ctx *ctx)
{
	mutex_lock(&contexts_lock);
	list_del(&ctx->contexts);
	mutex_unlock(&contexts_lock);
}

static void kvswap_context_show(struct seq_file *m, struct kvswap_ctx *ctx)
{
	struct kvswap_stats stats;

	spin_lock_irq(&ctx->lock);
	stats = ctx->stats;
	stats.in_flight = ctx->in_flight;
	spin_unlock_irq(&ctx->lock);
	seq_printf(m, "pid %d store %pD arena_bytes %llu chunk_bytes %u in_flight %u", ctx->pid,
		   ctx->target.file, ctx->pool.units << KVSWAP_UNIT_SHIFT,
		   1u << (ctx->pool.chunk_shift + KVSWAP_UNIT_SHIFT), stats.in_flight);
	seq_printf(m, " reads %llu writes %llu discards %llu flushes %llu", stats.reads,
		   stats.writes, stats.discards, stats.flushes);
	seq_printf(m, " read_units %llu written_units %llu merged %llu deferred %llu",
		   stats.read_units, stats.written_units, stats.merged, stats.deferred);
	seq_printf(m, " refused %llu errors %llu cancelled %llu read_ns %llu write_ns %llu\n",
		   stats.refused, stats.errors, stats.cancelled, stats.read_ns, stats.write_ns);
}

static int kvswap_debugfs_contexts_show(struct seq_file *m, void *unused)
{
	struct kvswap_ctx *ctx;

	mutex_lock(&contexts_lock);
	list_for_each_entry(ctx, &kvswap_contexts, contexts)
		kvswap_context_show(m, ctx);
	mutex_unlock(&contexts_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(kvswap_debugfs_contexts);

static struct miscdevice kvswap_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kvswap",
	.fops = &kvswap_fops,
	.mode = 0660,
};

static int __init kvswap_init(void)
{
	int err;

	kvswap_wq = alloc_workqueue("kvswap", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_HIGHPRI, 0);
	if (!kvswap_wq)
		return -ENOMEM;
	kvswap_debugfs = debugfs_create_dir("kvswap", NULL);
	debugfs_create_file("contexts", 0400, kvswap_debugfs, NULL, &kvswap_debugfs_contexts_fops);
	err = misc_register(&kvswap_misc);
	if (err)
		goto remove;
	return 0;

remove:
	debugfs_remove_recursive(kvswap_debugfs);
	destroy_workqueue(kvswap_wq);
	return err;
}

static void __exit kvswap_exit(void)
{
	misc_deregister(&kvswap_misc);
	debugfs_remove_recursive(kvswap_debugfs);
	destroy_workqueue(kvswap_wq);
}

module_init(kvswap_init);
module_exit(kvswap_exit);

MODULE_DESCRIPTION("Direct I/O between pinned memory and a block device or file, for KV caches");
MODULE_AUTHOR("The kvswap authors");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
