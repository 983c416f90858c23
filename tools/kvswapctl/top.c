// SPDX-License-Identifier: MIT
/* `kvswapctl top`: what running sessions do, a screen that is drawn anew, or lines where there is no terminal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "kvswap/interrupt.h"
#include "kvswap/report.h"
#include "kvswap/session.h"
#include "rates.h"

#ifdef HAVE_NCURSESW
#include <curses.h>
#endif

struct values {
	const char *dir;
	double seconds;
	uint32_t rounds;
	bool plain;
};

#define AT(field) offsetof(struct values, field)

static const struct cli_option options[] = {
	{ "seconds", 's', CLI_REAL, AT(seconds), 0.1, 3600, "S", "between two looks (1)" },
	{ "rounds", 'n', CLI_UINT, AT(rounds), 1, INT32_MAX, "N",
	  "end after so many (until Ctrl-C or q)" },
	{ "dir", 0, CLI_TEXT, AT(dir), 0, 0, "DIR", "where sessions publish" },
	{ "plain", 0, CLI_FLAG, AT(plain), 0, 0, NULL, "lines, even on a terminal" },
};

static const char columns[] =
	"session        program      steps/s   hit  foreseen  cover  reads/s     read/s   late/s  wait  KV in memory  of";

static void line(const struct rates *r, char *out, size_t bytes)
{
	const struct kvs_page_head *h = &r->now.head;
	char read[32], resident[32], full[32];

	snprintf(out, bytes,
		 "%-14.14s %-12.12s %7.1f %5.0f %9.0f %6.0f %8.0f %10s %8.0f %4.0f%% %13s  %s",
		 strrchr(r->now.path, '/') + 1, h->program, r->steps_s, 100 * r->hit,
		 100 * r->foreseen, 100 * r->coverage, r->reads_s,
		 session_size((uint64_t)r->read_bytes_s, read), r->late_s, 100 * r->wait_share,
		 session_size(r->now.counters[KVS_COUNT_RESIDENT_BYTES], resident),
		 session_size(h->full_bytes, full));
}

static void stages(const struct rates *r, char *out, size_t bytes)
{
	const struct kvs_page_head *h = &r->now.head;

	snprintf(
		out, bytes,
		"  ms a step: append %.2f, prefetch %.2f, score %.2f, attend %.2f, wait %.2f; %s, %s, G %u, %u slots, %.200s",
		r->stage_ms[RATE_APPEND], r->stage_ms[RATE_PREFETCH], r->stage_ms[RATE_SCORE],
		r->stage_ms[RATE_ATTEND], r->stage_ms[RATE_WAIT], h->backend,
		h->direct_io ? "direct" : "not direct", h->group, h->reuse, h->store);
}

static int show_lines(const struct rates_set *set)
{
	char text[640];

	puts(columns);
	for (int i = 0; i < set->n; i++) {
		line(&set->session[i], text, sizeof(text));
		puts(text);
		stages(&set->session[i], text, sizeof(text));
		puts(text);
	}
	if (set->n == 0)
		puts("no session runs");
	return fflush(stdout) || ferror(stdout) ? report_fail("cannot write to stdout") : DONE;
}

static bool pause_lines(double seconds)
{
	usleep((useconds_t)(seconds * 1e6));
	return true;
}

#ifdef HAVE_NCURSESW
static int show_screen(const struct rates_set *set)
{
	char text[640];
	int row = 2;

	erase();
	mvprintw(0, 0, "kvswapctl top: %d sessions; q ends", set->n);
	attron(A_REVERSE);
	mvaddnstr(1, 0, columns, COLS);
	attroff(A_REVERSE);
	for (int i = 0; i < set->n && row + 1 < LINES; i++) {
		line(&set->session[i], text, sizeof(text));
		mvaddnstr(row++, 0, text, COLS);
		stages(&set->session[i], text, sizeof(text));
		mvaddnstr(row++, 0, text, COLS);
	}
	refresh();
	return DONE;
}

/* false: the person has had enough. */
static bool pause_screen(double seconds)
{
	int key;

	timeout((int)(seconds * 1000));
	key = getch();
	return key != 'q' && key != 27;
}

static bool open_screen(void)
{
	SCREEN *screen = newterm(NULL, stdout, stdin);

	if (!screen)
		return false;
	cbreak();
	noecho();
	curs_set(0);
	return true;
}

static void close_screen(void)
{
	endwin();
}
#else
static int show_screen(const struct rates_set *set)
{
	return show_lines(set);
}

static bool pause_screen(double seconds)
{
	return pause_lines(seconds);
}

static bool open_screen(void)
{
	report_note("built without ncurses (libncurses-dev): plain lines");
	return false;
}

static void close_screen(void)
{
}
#endif

static int watch(const struct values *v, bool screen)
{
	struct rates_set set = { 0 };
	int rc = DONE;

	for (uint32_t i = 0; !rc && !interrupt_check(); i++) {
		int err = rates_take(v->dir, &set);

		if (err)
			rc = report_fail("cannot read the sessions: %s", strerror(-err));
		else if (i > 0)
			rc = screen ? show_screen(&set) : show_lines(&set);
		if (rc || (v->rounds && i == v->rounds))
			break;
		if (!(screen ? pause_screen(v->seconds) : pause_lines(v->seconds)))
			break;
	}
	rates_free(&set);
	return rc;
}

static int top_main(int argc, char **argv)
{
	struct values v = { .seconds = 1 };
	struct cli_list operands;
	enum cli_result parsed = cli_parse(&command_top, &v, argc, argv, &operands);
	bool screen;
	int rc;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_top, &operands))
		return WRONG_USAGE;
	interrupt_catch();
	screen = !v.plain && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && open_screen();
	rc = watch(&v, screen);
	if (screen)
		close_screen();
	return rc ? rc : interrupt_check();
}

const struct command command_top = {
	.name = "top",
	.summary = "watch running sessions",
	.usage = "[-s SECONDS] [-n ROUNDS] [options]",
	.about =
		"Shows of every running session the steps, hit rate, share foreseen by the estimated query, coverage,\n"
		"reads, late reads, the share of time spent waiting for the storage, and the time of each stage. Plain\n"
		"lines when stdout is no terminal.",
	.examples = "  kvswapctl top\n  kvswapctl top --plain -n 10 | tee watch.txt",
	.options = options,
	.n_options = CLI_N(options),
	.main = top_main,
};
