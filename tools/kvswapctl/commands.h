/* SPDX-License-Identifier: MIT */
/* One command a file; main.c has the table of them. */
#ifndef KVSWAPCTL_COMMANDS_H
#define KVSWAPCTL_COMMANDS_H

#include "cli.h"

extern const struct command command_probe, command_calc, command_plan, command_tune, command_load,
	command_unload, command_status, command_top, command_metrics, command_doctor, command_plot;

#endif
