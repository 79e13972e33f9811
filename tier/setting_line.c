/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setting_line.c - decides what a line of a file of settings says. The readers of such files call it:
 * service_settings.c and credentials.c.
 *
 * Thread: any.
 */
#include "tier/setting_line.h"

#include <stddef.h>
#include <string.h>

char *setting_trim(char *text)
{
    text += strspn(text, " \t\r\n");
    size_t len = strlen(text);
    while (len && strchr(" \t\r\n", text[len - 1]))
        text[--len] = '\0';
    return text;
}

bool setting_is(const char *name, const char *setting)
{
    for (; *name && *setting; name++, setting++)
        if (*name != *setting && !(*name == '-' && *setting == '_'))
            return false;
    return *name == *setting;
}

bool setting_line_split(char *line, char **name, char **value)
{
    *name = *value = NULL;
    line = setting_trim(line);
    if (!*line || *line == '#')
        return true;
    char *equals = strchr(line, '=');
    if (!equals)
        return false;
    *equals = '\0';
    *name = setting_trim(line);
    *value = setting_trim(equals + 1);
    return true;
}
