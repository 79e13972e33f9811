/* SPDX-License-Identifier: Apache-2.0 */
/*
 * defaults.c - tries the places of defaults.h in order. config.c calls it once, while the settings are
 * read at the daemon's start.
 *
 * Thread: main, before there is a loop.
 */
#include "daemon/process/defaults.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "client/lib/owned_path.h"
#include "daemon/process/log.h"
#include "store/store.h"

/* Source: linux/magic.h and the file systems' own headers. FUSE is here because nobody can tell
 * what is behind it. */
static const struct {
    unsigned long type;
    const char *name;
} network_types[] = {
    {0x6969, "NFS"},          {0x517b, "SMB"},      {0xff534d42, "CIFS"},  {0xfe534d42, "SMB"},
    {0x0bd00bd0, "Lustre"},   {0x47504653, "GPFS"}, {0x00c36400, "Ceph"},  {0x19830326, "BeeGFS"},
    {0x65735546, "FUSE"},     {0x01021997, "9P"},   {0x5346414f, "AFS"},   {0x6b414653, "AFS"},
    {0x20030528, "OrangeFS"}, {0x73757245, "Coda"}, {0xaad7aaea, "PanFS"},
};

const char *defaults_network_name(unsigned long type)
{
    for (size_t i = 0; i < sizeof network_types / sizeof *network_types; i++)
        if (network_types[i].type == type)
            return network_types[i].name;
    return NULL;
}

/* Returns this user's home folder: $HOME, else that of the user database; NULL if neither is set. */
static const char *home_folder(void)
{
    const char *home = getenv("HOME");
    if (home && *home == '/')
        return home;
    const struct passwd *user = getpwuid(geteuid());
    return user && user->pw_dir && *user->pw_dir == '/' ? user->pw_dir : NULL;
}

/* Writes "$variable/rest", or "~/below/rest" without the variable. False if neither is known. */
static bool user_path(const char *variable, const char *below, const char *rest, char *out,
                      size_t cap)
{
    const char *base = getenv(variable), *home = home_folder();
    int n = -1;
    if (base && *base == '/')
        n = snprintf(out, cap, "%s/%s", base, rest);
    else if (home)
        n = snprintf(out, cap, "%s/%s/%s", home, below, rest);
    return n > 0 && (size_t)n < cap;
}

/* Makes a folder and its missing parents, for this user alone. */
static int make_folders(const char *path)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0700) != 0 && errno != EEXIST && access(part, X_OK) != 0)
            return -1;
    }
    return mkdir(path, 0700) != 0 && errno != EEXIST ? -1 : 0;
}

/* Returns NULL if the store can be at `path`, else the reason why not, which may lie in *e. */
static const char *why_not(const char *path, struct err *e)
{
    struct stat st;
    struct statfs fs;
    if (owned_path_check(path, "the store", e) != 0)
        return e->text;
    if (make_folders(path) != 0 || lstat(path, &st) != 0 || statfs(path, &fs) != 0)
        return strerror(errno);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return "not a folder of this user alone";
    if (access(path, R_OK | W_OK | X_OK) != 0)
        return strerror(errno);
    return defaults_network_name((unsigned long)fs.f_type);
}

/* True if a daemon of another machine or container has the store at `path`; writes a reason. A daemon of
 * this one is not left out: it may be ending. */
static bool is_elsewhere(const char *path, char *out, size_t cap)
{
    char host[HOST_NAME_MAX + 1] = "", own[HOST_NAME_MAX + 1] = "";
    if (!store_lock_host(path, host) || !*host || gethostname(own, HOST_NAME_MAX) != 0 ||
        strcmp(host, own) == 0)
        return false;
    return snprintf(out, cap, "a daemon on %s uses it", host) > 0;
}

static bool store_place(unsigned i, char *out, size_t cap)
{
    unsigned uid = (unsigned)geteuid();
    switch (i) {
    case 0:
        if (uid == 0)
            return snprintf(out, cap, "/var/cache/warm") > 0;
        return user_path("XDG_CACHE_HOME", ".cache", "warm", out, cap);
    case 1: return snprintf(out, cap, "/var/tmp/warm-%u", uid) > 0;
    default: return snprintf(out, cap, "/tmp/warm-%u/store", uid) > 0;
    }
}

int defaults_store(char *out, size_t cap, struct err *e)
{
    char elsewhere[HOST_NAME_MAX + 32];
    const char *reason = "no home folder is known";
    struct err denied;
    for (unsigned i = 0; i < 3; i++) {
        if (!store_place(i, out, cap))
            continue;
        reason = why_not(out, &denied);
        if (!reason && is_elsewhere(out, elsewhere, sizeof elsewhere))
            reason = elsewhere;
        if (!reason)
            return 0;
        log_warning("the store cannot be in %s: %s", out, reason);
    }
    return err_set(e, WARM_EIO, "there is no place for the store (%s: %s): use --store DIR", out,
                   reason);
}

bool defaults_settings(char *out, size_t cap)
{
    bool known = geteuid() == 0
                     ? snprintf(out, cap, "/etc/warm/warmd.conf") > 0
                     : user_path("XDG_CONFIG_HOME", ".config", "warm/warmd.conf", out, cap);
    return known && access(out, R_OK) == 0;
}
