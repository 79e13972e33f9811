/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc_id.c - finds the builtins that a libnvrtc loads, and makes one identity of the two files.
 * The daemon calls it for compilers that it may load, libwarm for those that the daemon may not.
 *
 * Thread: any; no state.
 */
#include "client/lib/nvrtc_id.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/domains.h"

bool nvrtc_newest_entry(const char *folder, const char *prefix, char out[NAME_MAX + 1])
{
    DIR *dir = opendir(folder);
    bool found = false;
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (strncmp(d->d_name, prefix, strlen(prefix)) == 0 && !strstr(d->d_name, ".alt.") &&
            (!found || strverscmp(d->d_name, out) > 0)) {
            strcpy(out, d->d_name);
            found = true;
        }
    if (dir)
        closedir(dir);
    return found;
}

char *nvrtc_builtins_of(const char *library)
{
    char *real = realpath(library, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    const char *version = slash ? strstr(slash, ".so.") : NULL;
    char *path = NULL, prefix[64], name[NAME_MAX + 1];
    unsigned major = 0, minor = 0;
    int n = version ? sscanf(version, ".so.%u.%u", &major, &minor) : 0;
    if (n == 2)
        snprintf(prefix, sizeof prefix, "libnvrtc-builtins.so.%u.%u", major, minor);
    else if (n == 1)
        snprintf(prefix, sizeof prefix, "libnvrtc-builtins.so.%u.", major);
    else
        snprintf(prefix, sizeof prefix, "libnvrtc-builtins.so.");
    if (slash)
        *slash = '\0';
    bool found = slash && nvrtc_newest_entry(real, prefix, name);
    if (slash && !found && n == 2) { /* the libraries of 11.3 to 11.8 are all called 11.2 */
        snprintf(prefix, sizeof prefix, "libnvrtc-builtins.so.%u.", major);
        found = nvrtc_newest_entry(real, prefix, name);
    }
    if (!found)
        path = strdup("");
    else if (asprintf(&path, "%s/%s", real, name) < 0)
        path = NULL;
    free(real);
    return path;
}

static void add_file(struct key_builder *b, uint32_t tag, const struct nvrtc_file *file)
{
    key_add_u64(b, tag, file->len);
    key_add(b, tag, &file->sha256, sizeof file->sha256);
}

struct key nvrtc_id(const struct nvrtc_file *library, const struct nvrtc_file *builtins)
{
    struct key_builder b;
    struct key unused, id;
    struct proof proof;
    key_begin(&b, DOMAIN_NVRTC);
    add_file(&b, 1, library);
    if (builtins)
        add_file(&b, 2, builtins);
    key_end(&b, &unused, &proof);
    memcpy(id.bytes, proof.bytes, sizeof id.bytes);
    return id;
}
