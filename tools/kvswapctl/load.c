// SPDX-License-Identifier: MIT
/* `kvswapctl load` and `unload`: the kernel module, by libkmod. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "kvswap/report.h"
#include "module.h"
#include "sysfile.h"
#include "uapi/kvswap.h"

struct values {
	const char *file;
};

static const struct cli_option load_options[] = {
	{ "file", 'f', CLI_TEXT, offsetof(struct values, file), 0, 0, "FILE",
	  "this kvswap.ko instead of the installed one" },
};

#ifdef HAVE_LIBKMOD
#include <libkmod.h>
#include <syslog.h>

/* Without libkmod's own lines on stderr: what went wrong is said once, here. */
static struct kmod_ctx *open_kmod(void)
{
	struct kmod_ctx *ctx = kmod_new(NULL, NULL);

	if (ctx)
		kmod_set_log_priority(ctx, LOG_EMERG);
	return ctx;
}

/* "max_pinned_mib=512 ...", or NULL: no memory. */
static char *join(const struct cli_list *words)
{
	size_t bytes = 1;
	char *text;

	for (int i = 0; i < words->n; i++)
		bytes += strlen(words->arg[i]) + 1;
	text = calloc(1, bytes);
	for (int i = 0; text && i < words->n; i++) {
		strcat(text, words->arg[i]);
		strcat(text, i + 1 < words->n ? " " : "");
	}
	return text;
}

static int insert(struct kmod_ctx *ctx, const char *file, const char *parameters)
{
	struct kmod_module *module = NULL;
	struct kmod_list *list = NULL;
	int err;

	if (file) {
		err = kmod_module_new_from_path(ctx, file, &module);
		if (!err)
			err = kmod_module_insert_module(module, 0, parameters);
		kmod_module_unref(module);
		return err;
	}
	err = kmod_module_new_from_lookup(ctx, MODULE_NAME, &list);
	if (!err && !list)
		err = -ENOENT;
	if (!err) {
		module = kmod_module_get_module(list);
		err = kmod_module_probe_insert_module(module, KMOD_PROBE_FAIL_ON_LOADED, parameters,
						      NULL, NULL, NULL);
		kmod_module_unref(module);
	}
	kmod_module_unref_list(list);
	return err;
}

static int load(const struct values *v, const struct cli_list *parameters)
{
	struct kmod_ctx *ctx = open_kmod();
	char *text = join(parameters);
	int err = ctx && text ? insert(ctx, v->file, text) : -ENOMEM;

	free(text);
	kmod_unref(ctx);
	return err;
}

static int unload(void)
{
	struct kmod_ctx *ctx = open_kmod();
	struct kmod_module *module = NULL;
	int err = ctx ? kmod_module_new_from_name(ctx, MODULE_NAME, &module) : -ENOMEM;

	if (!err)
		err = kmod_module_remove_module(module, 0);
	kmod_module_unref(module);
	kmod_unref(ctx);
	return err;
}
#else
static int load(const struct values *v, const struct cli_list *parameters)
{
	(void)v;
	(void)parameters;
	return -ENOTSUP;
}

static int unload(void)
{
	return -ENOTSUP;
}
#endif

static int without_libkmod(const char *what)
{
	return report_fail("built without libkmod: install libkmod-dev and build again, or use %s",
			   what);
}

static int check_loaded(void)
{
	struct module_state s;

	module_look(&s);
	if (s.device_error == -ENOENT)
		return report_fail("%s is loaded but there is no %s: is udev running?", MODULE_NAME,
				   MODULE_DEVICE);
	if (s.device_error)
		return report_fail("%s: %s", MODULE_DEVICE, strerror(-s.device_error));
	if (s.abi < KVSWAP_ABI)
		return report_fail(
			"%s speaks ABI %u, this program %u: install the module of the same version",
			MODULE_NAME, s.abi, KVSWAP_ABI);
	report_note("%s %s loaded, ABI %u", MODULE_NAME, s.version, s.abi);
	return DONE;
}

static int load_main(int argc, char **argv)
{
	struct values v = { 0 };
	struct cli_list parameters;
	enum cli_result parsed = cli_parse(&command_load, &v, argc, argv, &parameters);
	char reason[768];
	int err;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	for (int i = 0; i < parameters.n; i++)
		if (!strchr(parameters.arg[i], '='))
			return report_usage("'%s' is not a parameter: write NAME=VALUE",
					    parameters.arg[i]);
	if (sys_exists("/sys/module/" MODULE_NAME))
		return parameters.n
			       ? report_fail(
					 "%s is loaded already: kvswapctl unload first, to give it parameters",
					 MODULE_NAME)
			       : check_loaded();
	err = load(&v, &parameters);
	if (err == -ENOTSUP)
		return without_libkmod("modprobe " MODULE_NAME);
	/* libkmod gives what stopped it as a positive number when it is a rule of modprobe.d. */
	if (err > 0)
		return report_fail("cannot load %s: modprobe.d forbids it",
				   v.file ? v.file : MODULE_NAME);
	if (err)
		return report_fail("cannot load %s: %s", v.file ? v.file : MODULE_NAME,
				   module_reason(err, reason, sizeof(reason)));
	return check_loaded();
}

static int unload_main(int argc, char **argv)
{
	struct cli_list operands;
	enum cli_result parsed = cli_parse(&command_unload, NULL, argc, argv, &operands);
	char reason[768], holders[256];
	int err;

	if (parsed != CLI_GO)
		return parsed == CLI_HELP ? DONE : WRONG_USAGE;
	if (cli_none(&command_unload, &operands))
		return WRONG_USAGE;
	if (!sys_exists("/sys/module/" MODULE_NAME)) {
		report_note("%s is not loaded", MODULE_NAME);
		return DONE;
	}
	module_holders(holders, sizeof(holders));
	err = unload();
	if (err == -ENOTSUP)
		return without_libkmod("rmmod " MODULE_NAME);
	if (err)
		return report_fail("cannot unload %s: %s%s%s", MODULE_NAME,
				   module_reason(err, reason, sizeof(reason)),
				   *holders ? ", by " : "", holders);
	return DONE;
}

const struct command command_load = {
	.name = "load",
	.summary = "load the kernel module",
	.usage = "[-f FILE] [NAME=VALUE...]",
	.about =
		"Loads kvswap.ko with the parameters given, and checks its version and its device. Explains a refusal.",
	.examples =
		"  kvswapctl load max_pinned_mib=2048\n  kvswapctl load -f build/modules/kvswap.ko",
	.options = load_options,
	.n_options = CLI_N(load_options),
	.main = load_main,
};

const struct command command_unload = {
	.name = "unload",
	.summary = "unload the kernel module",
	.usage = "",
	.about = "Unloads kvswap.ko. Who holds its device is told when it is in use.",
	.examples = "  kvswapctl unload",
	.main = unload_main,
};
