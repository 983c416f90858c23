/* SPDX-License-Identifier: MIT */
/*
 * A QEMU plugin (API version 1) that counts guest instructions per block of code and by what the
 * processor was doing.
 *
 * The guest controls it by instructions that do nothing: nopl MARK_ON(%rax) counts from here on,
 * MARK_OFF stops, MARK_DUMP writes out/NNN and clears. By the first MARK_ON the guest has written
 * its /proc/kallsyms where map= says: the entry points of interrupts and of the idle task are found
 * by it. One processor only.
 *
 * A line of out/NNN: address (hex), instructions in the block, 1 for a repeated string instruction,
 * one number of executions for each of enum doing.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is used of qemu-plugin.h, which distributions do not ship. */
typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*translated_fn)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*executed_fn)(unsigned int vcpu, void *arg);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated_fn fn);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, executed_fn fn, int flags,
					  void *arg);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, executed_fn fn,
					    int flags, void *arg);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

#define EXPORT __attribute__((visibility("default")))
#define MARK_ON 0x4b560001u
#define MARK_OFF 0x4b560002u
#define MARK_DUMP 0x4b560003u
#define BUCKETS 65536

enum doing { USER, KERNEL, DEVICE_IRQ, TIMER_IRQ, OTHER_IRQ, IDLE, NR_DOING };
enum hook { NONE, ENTER_DEVICE, ENTER_TIMER, ENTER_OTHER, LEAVE, IDLE_BEGIN, IDLE_END };

struct block {
	uint64_t va;
	uint32_t insns;
	bool repeats;
	enum hook hook;
	uint64_t runs[NR_DOING];
	struct block *next, *all;
};

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

static struct block *buckets[BUCKETS], *blocks;
static const char *map_path = "kallsyms", *out_dir = ".";
static bool counting, idle, mapped;
static int dumps, depth;
static enum doing stack[16], now = KERNEL;

static void settle(void)
{
	if (depth)
		now = stack[depth < 16 ? depth : 15];
	else
		now = idle ? IDLE : KERNEL;
}

static void enter(enum doing what)
{
	depth++;
	stack[depth < 16 ? depth : 15] = what;
}

static void follow(enum hook hook)
{
	switch (hook) {
	case ENTER_DEVICE:
		enter(DEVICE_IRQ);
		break;
	case ENTER_TIMER:
		enter(TIMER_IRQ);
		break;
	case ENTER_OTHER:
		enter(OTHER_IRQ);
		break;
	case LEAVE:
		depth -= depth > 0;
		break;
	case IDLE_BEGIN:
	case IDLE_END:
		idle = hook == IDLE_BEGIN;
		break;
	case NONE:
		return;
	}
	settle();
}

static void block_executed(unsigned int vcpu, void *arg)
{
	struct block *b = arg;

	(void)vcpu;
	if (!(b->va >> 63)) {
		depth = 0;
		idle = false;
		now = KERNEL;
		b->runs[USER] += counting;
		return;
	}
	follow(b->hook);
	b->runs[now] += counting;
}

static enum hook hook_of(const char *symbol)
{
	static const struct {
		const char *symbol;
		enum hook hook;
	} hooks[] = {
		{ "asm_common_interrupt", ENTER_DEVICE },
		{ "asm_sysvec_apic_timer_interrupt", ENTER_TIMER },
		{ "irqentry_exit", LEAVE },
		{ "tick_nohz_idle_enter", IDLE_BEGIN },
		{ "schedule_idle", IDLE_END },
	};

	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
		if (!strcmp(symbol, hooks[i].symbol))
			return hooks[i].hook;
	if (!strncmp(symbol, "asm_exc_", 8) || !strncmp(symbol, "asm_sysvec_", 11))
		return ENTER_OTHER;
	return NONE;
}

static void hook_set(uint64_t va, enum hook hook)
{
	for (struct block *b = blocks; b; b = b->all)
		if (b->va == va)
			b->hook = hook;
}

/*
 * Blocks seen before and after: an entry point that has not run by now is translated later, without
 * its hook.
 */
static void map_read(void)
{
	char line[512], symbol[256];
	FILE *f = fopen(map_path, "r");
	uint64_t va;
	enum hook hook;

	mapped = true;
	if (!f) {
		fprintf(stderr, "count: no %s\n", map_path);
		exit(1);
	}
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 " %*s %255s", &va, symbol) == 2 &&
		    (hook = hook_of(symbol)))
			hook_set(va, hook);
	fclose(f);
}

static void mark_on(unsigned int vcpu, void *arg)
{
	(void)vcpu, (void)arg;
	if (!mapped)
		map_read();
	counting = true;
}

static void mark_off(unsigned int vcpu, void *arg)
{
	(void)vcpu, (void)arg;
	counting = false;
}

static void block_dump(FILE *f, struct block *b)
{
	uint64_t runs = 0;

	for (int i = 0; i < NR_DOING; i++)
		runs += b->runs[i];
	if (!runs)
		return;
	fprintf(f, "%" PRIx64 " %u %d", b->va, b->insns, b->repeats);
	for (int i = 0; i < NR_DOING; i++)
		fprintf(f, " %" PRIu64, b->runs[i]);
	fputc('\n', f);
	memset(b->runs, 0, sizeof(b->runs));
}

static void mark_dump(unsigned int vcpu, void *arg)
{
	char path[4096];
	FILE *f;

	(void)vcpu, (void)arg;
	snprintf(path, sizeof(path), "%s/%03d", out_dir, dumps++);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		exit(1);
	}
	for (struct block *b = blocks; b; b = b->all)
		block_dump(f, b);
	fclose(f);
}

/*
 * A string instruction with a repeat prefix is a block of its own, entered once for each
 * repetition.
 */
static bool block_repeats(struct qemu_plugin_tb *tb)
{
	struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, 0);
	const uint8_t *b = qemu_plugin_insn_data(insn);
	uint8_t op;

	if (qemu_plugin_tb_n_insns(tb) != 1 || qemu_plugin_insn_size(insn) > 4 ||
	    (b[0] != 0xf3 && b[0] != 0xf2))
		return false;
	op = (b[1] & 0xf0) == 0x40 ? b[2] : b[1];
	return (op >= 0xa4 && op <= 0xa7) || (op >= 0xaa && op <= 0xaf) ||
	       (op >= 0x6c && op <= 0x6f);
}

static struct block *block_get(struct qemu_plugin_tb *tb)
{
	uint64_t va = qemu_plugin_tb_vaddr(tb);
	uint32_t insns = qemu_plugin_tb_n_insns(tb);
	bool repeats = block_repeats(tb);
	struct block **bucket = &buckets[(va * 11400714819323198485ull) >> 48], *b;

	for (b = *bucket; b; b = b->next)
		if (b->va == va && b->insns == insns && b->repeats == repeats)
			return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		abort();
	b->va = va;
	b->insns = insns;
	b->repeats = repeats;
	b->next = *bucket;
	*bucket = b;
	b->all = blocks;
	blocks = b;
	return b;
}

static void marks_find(struct qemu_plugin_tb *tb)
{
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *b = qemu_plugin_insn_data(insn);
		uint32_t mark;

		if (qemu_plugin_insn_size(insn) != 7 || b[0] != 0x0f || b[1] != 0x1f ||
		    b[2] != 0x80)
			continue;
		memcpy(&mark, b + 3, 4);
		if (mark == MARK_ON)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark_on, 0, NULL);
		else if (mark == MARK_OFF)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark_off, 0, NULL);
		else if (mark == MARK_DUMP)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark_dump, 0, NULL);
	}
}

static void block_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct block *b = block_get(tb);

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_executed, 0, b);
	if (!(b->va >> 63))
		marks_find(tb);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "map=", 4))
			map_path = strdup(argv[i] + 4);
		if (!strncmp(argv[i], "out=", 4))
			out_dir = strdup(argv[i] + 4);
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, block_translated);
	return 0;
}
