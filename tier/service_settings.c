/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service_settings.c - finds the settings of the network in warmd's configuration. main.c calls it if warm-tier is
 * a system's service. warmd itself complains of lines that are none.
 *
 * Thread: any.
 */
#include "tier/service_settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/owned_path.h"
#include "tier/setting_line.h"

#define LINE_BYTES 4096 /* as in warmd */

/* Takes a line's value if the setting is one of ours. */
static void take_line(struct service_settings *s, char *line)
{
    char *name, *value;
    if (!setting_line_split(line, &name, &value) || !name)
        return;
    char *to = setting_is(name, "tier")               ? s->url
               : setting_is(name, "tier_credentials") ? s->credentials
               : setting_is(name, "tier_ca")          ? s->ca
                                                      : NULL;
    if (to)
        snprintf(to, PATH_MAX, "%s", value);
}

bool service_settings_read(const char *path, struct service_settings *out, char *why,
                           size_t why_size)
{
    char line[LINE_BYTES];
    struct err e;
    bool is_owned = owned_path_check(path, "the settings", &e) == 0;
    FILE *f = is_owned ? fopen(path, "re") : NULL;
    *out = (struct service_settings){0};
    if (!f) {
        snprintf(why, why_size, "warm-tier cannot read %s: %s", path,
                 is_owned ? strerror(errno) : e.text);
        return false;
    }
    while (fgets(line, sizeof line, f))
        take_line(out, line);
    fclose(f);
    if (!*out->url)
        snprintf(why, why_size, "%s has no tier: warm-tier takes it from there alone", path);
    return *out->url;
}
