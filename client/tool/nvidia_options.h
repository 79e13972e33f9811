/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia_options.h - the options of cicc, nvlink and fatbinary that a kept run may have.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_TOOL_NVIDIA_OPTIONS_H
#define WARM_TOOL_NVIDIA_OPTIONS_H

#include <stdbool.h>

/* True if the table of `tool` ("cicc") has the option. Options that name outputs are not in it. */
bool nvidia_option_is_known(const char *tool, const char *option);

#endif
