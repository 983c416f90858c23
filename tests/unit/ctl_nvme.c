/* SPDX-License-Identifier: MIT */
/* What NVMe controllers say of themselves: the truth, nothing, and nonsense. */
#include <check.h>
#include <limits.h>
#include <string.h>

#include "kvswapctl/nvme.h"

#ifdef HAVE_LIBNVME
#include <libnvme.h>

static struct nvme_id_ctrl ctrl;
static struct nvme_id_ns ns;
static struct nvme_smart_log smart;
static struct nvme_facts facts;

static void set_up(void)
{
	memset(&ctrl, 0, sizeof(ctrl));
	memset(&ns, 0, sizeof(ns));
	memset(&smart, 0, sizeof(smart));
	memset(&facts, 0xcc, sizeof(facts));
	memset(ctrl.mn, ' ', sizeof(ctrl.mn));
	memcpy(ctrl.mn, "Made-up 1", 9);
	memset(ctrl.fr, ' ', sizeof(ctrl.fr));
	memcpy(ctrl.fr, "12345678", 8);
	ns.lbaf[0].ds = 9;
	smart.temperature[0] = 310 & 0xff;
	smart.temperature[1] = 310 >> 8;
	smart.avail_spare = 100;
	smart.spare_thresh = 10;
}

static bool warns(const char *text)
{
	struct warnings w = { 0 };

	nvme_warn("nvme0n1", &facts, &w);
	for (int i = 0; i < w.n; i++)
		if (strstr(w.text[i], text))
			return true;
	return false;
}

static int n_warnings(void)
{
	struct warnings w = { 0 };

	nvme_warn("nvme0n1", &facts, &w);
	return w.n;
}

static void decode(void)
{
	nvme_decode(&ctrl, &ns, &smart, 4096, &facts);
}

START_TEST(plain_512)
{
	decode();
	ck_assert_str_eq(facts.model, "Made-up 1");
	ck_assert_str_eq(facts.firmware, "12345678");
	ck_assert_uint_eq(facts.max_transfer, 0);
	ck_assert_uint_eq(facts.optimal_boundary, 0);
	ck_assert_uint_eq(facts.write_unit, 0);
	ck_assert_int_eq(facts.n_formats, 1);
	ck_assert_int_eq(facts.format, 0);
	ck_assert_uint_eq(facts.formats[0].block_bytes, 512);
	ck_assert_int_eq(facts.temperature_c, 37);
	ck_assert_int_eq(facts.warning_c, INT_MIN);
	ck_assert_int_eq(facts.spare_percent, 100);
	ck_assert_int_eq(n_warnings(), 0);
}
END_TEST

START_TEST(mdts_of_0_5_and_absurd)
{
	ctrl.mdts = 5;
	decode();
	ck_assert_uint_eq(facts.max_transfer, 128 << 10);
	ctrl.mdts = 1;
	decode();
	ck_assert_uint_eq(facts.max_transfer, 8192);
	ck_assert(warns("at most 8192 bytes"));
	ctrl.mdts = 0;
	decode();
	ck_assert_uint_eq(facts.max_transfer, 0);
	ctrl.mdts = 255;
	decode();
	ck_assert_uint_eq(facts.max_transfer, 0);
}
END_TEST

START_TEST(boundaries_in_blocks_of_4k)
{
	ns.nlbaf = 1;
	ns.lbaf[0].rp = 2;
	ns.lbaf[1].ds = 12;
	ns.flbas = 1;
	ns.noiob = 32;
	ns.npwg = 7;
	decode();
	ck_assert_int_eq(facts.n_formats, 2);
	ck_assert_uint_eq(facts.formats[facts.format].block_bytes, 4096);
	ck_assert_uint_eq(facts.optimal_boundary, 128 << 10);
	ck_assert_msg(facts.write_unit == 0, "NPWG counts only where NSFEAT says so");
	ns.nsfeat = 1 << 4;
	decode();
	ck_assert_uint_eq(facts.write_unit, 32 << 10);
	ck_assert_int_eq(n_warnings(), 0);
	ns.flbas = 0;
	decode();
	ck_assert(warns("format of 4096 bytes is rated faster"));
	ns.lbaf[1].ms = 8;
	decode();
	ck_assert(!warns("rated faster"));
}
END_TEST

START_TEST(more_than_16_formats)
{
	ns.nlbaf = 20;
	for (int i = 0; i <= 20; i++)
		ns.lbaf[i].ds = i == 18 ? 12 : 9;
	ns.flbas = 2 | 1 << 5;
	decode();
	ck_assert_int_eq(facts.n_formats, 21);
	ck_assert_int_eq(facts.format, 18);
}
END_TEST

START_TEST(controllers_that_lie)
{
	ns.flbas = 7;
	decode();
	ck_assert_int_eq(facts.format, -1);
	ck_assert(warns("does not have"));
	set_up();
	ns.lbaf[0].ds = 0;
	ns.noiob = 100;
	decode();
	ck_assert_int_eq(facts.n_formats, 0);
	ck_assert_int_eq(facts.format, -1);
	ck_assert_uint_eq(facts.optimal_boundary, 0);
	set_up();
	ns.nlbaf = 255;
	ns.lbaf[1].ds = 77;
	ns.noiob = 3;
	decode();
	ck_assert_int_eq(facts.n_formats, 1);
	ck_assert(warns("splits requests"));
	set_up();
	memset(&smart, 0, sizeof(smart));
	smart.avail_spare = 200;
	smart.percent_used = 255;
	memset(ctrl.mn, 0xff, sizeof(ctrl.mn));
	decode();
	ck_assert_int_eq(facts.temperature_c, INT_MIN);
	ck_assert_int_eq(facts.spare_percent, -1);
	ck_assert_int_eq(facts.used_percent, 255);
	ck_assert(warns("255 %"));
	ck_assert_int_eq(strlen(facts.model), 40);
	for (int i = 0; i < 40; i++)
		ck_assert_int_eq(facts.model[i], '?');
}
END_TEST

START_TEST(hot_and_worn)
{
	ctrl.wctemp = 350;
	ctrl.cctemp = 360;
	smart.temperature[0] = 355 & 0xff;
	smart.temperature[1] = 355 >> 8;
	smart.critical_warning = 2;
	smart.avail_spare = 5;
	smart.percent_used = 95;
	smart.media_errors[0] = 3;
	smart.media_errors[1] = 1;
	smart.thm_temp1_total_time = 60;
	decode();
	ck_assert_int_eq(facts.warning_c, 77);
	ck_assert_uint_eq(facts.media_errors, 259);
	ck_assert(warns("is at 82 degrees, its limit is 77"));
	ck_assert(warns("0x02"));
	ck_assert(warns("5 % of its spare"));
	ck_assert(warns("95 %"));
	ck_assert(warns("259 media errors"));
	ck_assert(warns("for 60 s"));
}
END_TEST

START_TEST(no_smart_log)
{
	nvme_decode(&ctrl, &ns, NULL, 4096, &facts);
	ck_assert_int_eq(facts.temperature_c, INT_MIN);
	ck_assert_int_eq(facts.spare_percent, -1);
	ck_assert_int_eq(facts.used_percent, -1);
	ck_assert_uint_eq(facts.media_errors, 0);
	ck_assert_int_eq(n_warnings(), 0);
}
END_TEST
#endif

START_TEST(no_such_disk)
{
	struct nvme_facts none;

	ck_assert_int_lt(nvme_look("nvme99n9", &none), 0);
}
END_TEST

Suite *suite_ctl_nvme(void);

Suite *suite_ctl_nvme(void)
{
	Suite *suite = suite_create("ctl_nvme");
	TCase *t = tcase_create("identify");

#ifdef HAVE_LIBNVME
	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_add_test(t, plain_512);
	tcase_add_test(t, mdts_of_0_5_and_absurd);
	tcase_add_test(t, boundaries_in_blocks_of_4k);
	tcase_add_test(t, more_than_16_formats);
	tcase_add_test(t, controllers_that_lie);
	tcase_add_test(t, hot_and_worn);
	tcase_add_test(t, no_smart_log);
#endif
	tcase_add_test(t, no_such_disk);
	suite_add_tcase(suite, t);
	return suite;
}
