/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia_options.h - the options of cicc, nvlink, fatbinary and tileiras that a kept run may have.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_TOOL_NVIDIA_OPTIONS_H
#define WARM_TOOL_NVIDIA_OPTIONS_H

enum nvidia_rule {
    NVIDIA_UNKNOWN, /* the table of the tool does not have it */
    NVIDIA_KEPT,
    NVIDIA_REFUSED, /* with it, the tool writes, prints or reads more than warm follows */
};

/* Returns the rule of an option of `tool` ("cicc"). Options that name outputs are not in the tables. */
enum nvidia_rule nvidia_option_rule(const char *tool, const char *option);

#endif
