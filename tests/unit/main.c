// SPDX-License-Identifier: MIT
/*
 * Runs the unit tests. The build collects every `Suite *suite_NAME(void)` of this directory into
 * suites.h; an argument names the one suite to run. Each test is a process of its own,
 * so a crash is that test's failure. Counting and times are tests/run's, from libcheck's XML log.
 */
#include <stdlib.h>
#include <string.h>

typedef Suite *(*suite_fn)(void);

int main(int argc, char **argv)
{
	static const suite_fn suites[] = { SUITES };
	SRunner *runner = srunner_create(NULL);
	int failed;

	for (const suite_fn *fn = suites; *fn; fn++)
		srunner_add_suite(runner, (*fn)());
	if (argc > 1)
		setenv("CK_RUN_SUITE", argv[1], 1);
	srunner_set_fork_status(runner, CK_FORK);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
