/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia_options.h - the options of cicc, nvlink and fatbinary that a run may have and still be kept.
 *
 * Thread: any; no state.
 */
#ifndef WARM_TOOL_NVIDIA_OPTIONS_H
#define WARM_TOOL_NVIDIA_OPTIONS_H

#include <stdbool.h>

/* True if the table of `tool` ("cicc") has the option. The names of outputs are not its matter. */
bool nvidia_option_is_known(const char *tool, const char *option);

#endif
