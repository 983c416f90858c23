/* SPDX-License-Identifier: MIT */
/* How doctor judges sessions; the module's contexts as debugfs lists them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvswapctl/contexts.h"
#include "kvswapctl/findings.h"

static struct kvs_page_head head = { .direct_io = 1,
				     .where = KVS_DISK,
				     .group = 8,
				     .select = 400,
				     .reuse = 100 };

static struct session_change healthy(void)
{
	return (struct session_change){
		.name = "7",
		.head = &head,
		.selections = 1000,
		.selected = 50000,
		.hit = 40000,
		.predicted = 45000,
		.coverage = 850,
		.wait_s = 1,
		.busy_s = 9,
	};
}

static const struct finding *judge(const struct session_change *c, const char *what)
{
	static struct findings f;

	memset(&f, 0, sizeof(f));
	findings_session(&f, c);
	for (int i = 0; i < f.n; i++)
		if (strstr(f.finding[i].what, what))
			return &f.finding[i];
	return NULL;
}

START_TEST(healthy_session)
{
	struct session_change c = healthy();
	struct findings f = { .n = 0 };

	findings_session(&f, &c);
	ck_assert_int_eq(f.n, 5);
	ck_assert_int_eq(findings_warned(&f), 0);
	ck_assert_double_eq_tol(judge(&c, "hit rate")->value, 80, 1e-9);
	ck_assert_double_eq_tol(judge(&c, "coverage")->value, 85, 1e-9);
}
END_TEST

START_TEST(each_ill_has_its_remedy)
{
	struct session_change c = healthy();

	c.hit = 10000;
	ck_assert_int_eq(judge(&c, "hit rate")->level, FINDING_WARN);
	ck_assert_ptr_nonnull(strstr(judge(&c, "hit rate")->remedy, "lower --select"));
	head.reuse = 20;
	ck_assert_ptr_nonnull(strstr(judge(&c, "hit rate")->remedy, "fewer slots"));
	head.reuse = 100;
	c = healthy();
	c.predicted = 10000;
	ck_assert_int_eq(judge(&c, "foreseen")->level, FINDING_WARN);
	c = healthy();
	c.coverage = 500;
	ck_assert_int_eq(judge(&c, "coverage")->level, FINDING_WARN);
	c = healthy();
	c.wait_s = 20;
	ck_assert_int_eq(judge(&c, "waiting")->level, FINDING_WARN);
	head.direct_io = 0;
	ck_assert_int_eq(judge(&c, "direct")->level, FINDING_WARN);
	head.direct_io = 1;
}
END_TEST

START_TEST(few_selections_say_nothing)
{
	struct session_change c = healthy();

	c.selections = 10;
	c.hit = 0;
	ck_assert_ptr_null(judge(&c, "hit rate"));
	ck_assert_ptr_nonnull(judge(&c, "direct"));
}
END_TEST

START_TEST(contexts_of_debugfs)
{
	static struct contexts c;
	char path[] = "/tmp/kvswap-contexts-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	dprintf(fd,
		"pid 12 store /mnt/my store/x arena_bytes 4096 chunk_bytes 2097152 in_flight 3 reads 5 errors 1\n"
		"rubbish\npid 13 store /dev/nvme0n1 arena_bytes 8192 reads\n");
	close(fd);
	contexts_read(path, &c);
	unlink(path);
	ck_assert_int_eq(c.n, 2);
	ck_assert_str_eq(c.why, "");
	ck_assert_uint_eq(c.context[0].pid, 12);
	ck_assert_str_eq(c.context[0].store, "/mnt/my store/x");
	ck_assert_uint_eq(context_field(&c.context[0], "in_flight"), 3);
	ck_assert_uint_eq(context_field(&c.context[0], "errors"), 1);
	ck_assert_uint_eq(context_field(&c.context[0], "nothing"), 0);
	ck_assert_uint_eq(context_field(&c.context[1], "arena_bytes"), 8192);
	contexts_read("/nonexistent", &c);
	ck_assert_int_eq(c.n, 0);
	ck_assert_str_ne(c.why, "");
}
END_TEST

Suite *suite_ctl_findings(void);

Suite *suite_ctl_findings(void)
{
	Suite *suite = suite_create("ctl_findings");
	TCase *t = tcase_create("judgement");

	tcase_add_test(t, healthy_session);
	tcase_add_test(t, each_ill_has_its_remedy);
	tcase_add_test(t, few_selections_say_nothing);
	tcase_add_test(t, contexts_of_debugfs);
	suite_add_tcase(suite, t);
	return suite;
}
