/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned_path.c - walks a path as the kernel does, part by part and link by link, and looks at each owner
 * and mode. warmd, warm-tier and `warm` call it before they read a file that they believe.
 *
 * Parts that are checked cannot change afterwards, but by root or this user. So their names may be used
 * again: the walk and the later open() see the same entries.
 *
 * Thread: any.
 */
#include "client/lib/owned_path.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OVERFLOW_UID 65534 /* unless an administrator chose another */
#define LINKS_MAX 40       /* as the kernel's limit for one path */
#define RECORD_MAX                                                                                 \
    4096 /* bytes; the record of a larger group does not fit, so it is no private one */

struct walk {
    char done[PATH_MAX]; /* checked, without links; "" is the root */
    char rest[PATH_MAX];
    unsigned n_links;
    const char *what;
    struct err *e;
};

static const char *name_of(const struct walk *w) { return *w->done ? w->done : "/"; }

/* True if this user namespace has no number for the uid: the kernel shows each such owner as this one. */
static bool is_outside(uid_t uid)
{
    unsigned long shown = OVERFLOW_UID, inside, outside, n;
    bool is_mapped = true;
    FILE *f = fopen("/proc/sys/kernel/overflowuid", "re"); /* a service may not see it */
    if (f && fscanf(f, "%lu", &shown) != 1)
        shown = OVERFLOW_UID;
    if (f)
        fclose(f);
    if (shown != uid || !(f = fopen("/proc/self/uid_map", "re")))
        return false;
    for (is_mapped = false; fscanf(f, "%lu %lu %lu", &inside, &outside, &n) == 3;)
        is_mapped |= uid >= inside && uid - inside < n;
    fclose(f);
    return !is_mapped;
}

/* True if the group has no member but the user, whose name it has. */
static bool is_private_group(gid_t gid, uid_t uid)
{
    struct passwd user, *has_user;
    struct group group, *has_group;
    char user_texts[RECORD_MAX], group_texts[RECORD_MAX];
    if (getpwuid_r(uid, &user, user_texts, sizeof user_texts, &has_user) != 0 || !has_user ||
        getgrgid_r(gid, &group, group_texts, sizeof group_texts, &has_group) != 0 || !has_group ||
        user.pw_gid != gid || strcmp(group.gr_name, user.pw_name) != 0)
        return false;
    for (char **member = group.gr_mem; *member; member++)
        if (strcmp(*member, user.pw_name) != 0)
            return false;
    /* No user but this one may have the group as their first. Lists of a directory service stay out of sight. */
    static pthread_mutex_t lock =
        PTHREAD_MUTEX_INITIALIZER; /* the list has one place for all threads */
    bool is_alone = true;
    pthread_mutex_lock(&lock);
    setpwent();
    while (is_alone && getpwent_r(&user, user_texts, sizeof user_texts, &has_user) == 0)
        is_alone = user.pw_gid != gid || user.pw_uid == uid;
    endpwent();
    pthread_mutex_unlock(&lock);
    return is_alone;
}

/* True if users other than the owner may change the entry. The mode of a link says nothing, and that of a
 * device says who may use it. */
static bool others_write(const char *path, const struct stat *st)
{
    if (S_ISLNK(st->st_mode) || S_ISCHR(st->st_mode))
        return false;
    if (st->st_mode & S_IWOTH)
        return true;
    return st->st_mode & S_IWGRP && (lgetxattr(path, "system.posix_acl_access", NULL, 0) >= 0 ||
                                     !is_private_group(st->st_gid, st->st_uid));
}

/* Checks one part. */
static int check_part(const struct walk *w, const struct stat *st, bool is_above)
{
    const char *name = name_of(w);
    bool is_sticky = is_above && S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX;
    if (st->st_uid != 0 && st->st_uid != geteuid() && !(is_above && is_outside(st->st_uid)))
        return err_set(
            w->e, WARM_EDENIED,
            "%s belongs to another user (uid %u), who could change %s: use another place", name,
            (unsigned)st->st_uid, w->what);
    if (!is_sticky && others_write(name, st))
        return err_set(w->e, WARM_EDENIED,
                       "%s can be written by other users, who could change %s: chmod go-w it", name,
                       w->what);
    return 0;
}

/* Takes the next part off the rest: ".." leads back, since what is done has no links. False at the end. */
static bool next_part(struct walk *w)
{
    size_t blank = strspn(w->rest, "/"), len = strcspn(w->rest + blank, "/");
    const char *part = w->rest + blank;
    if (len == 0)
        return false;
    char *end = strrchr(w->done, '/');
    if (len == 2 && memcmp(part, "..", 2) == 0)
        *(end ? end : w->done) = '\0';
    else if (len != 1 || *part != '.')
        snprintf(w->done + strlen(w->done), sizeof w->done - strlen(w->done), "/%.*s", (int)len,
                 part);
    memmove(w->rest, part + len, strlen(part + len) + 1);
    return true;
}

static int too_long(const struct walk *w)
{
    return err_set(w->e, WARM_EINVALID, "the path of %s is too long, or its links lead in a circle",
                   w->what);
}

/* Puts a link's target before the rest. */
static int follow(struct walk *w)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t len = readlink(w->done, target, sizeof target - 1);
    if (len < 0)
        return err_sys(w->e, WARM_EIO, errno, "cannot read the link %s", w->done);
    target[len] = '\0';
    strcpy(rest, w->rest);
    if (++w->n_links > LINKS_MAX || (size_t)len + strlen(rest) + 2 > sizeof w->rest)
        return too_long(w);
    strcpy(stpcpy(stpcpy(w->rest, target), "/"), rest);
    *(*target == '/' ? w->done : strrchr(w->done, '/')) = '\0';
    return 0;
}

static int walk(struct walk *w, bool to_the_end)
{
    struct stat st;
    do {
        bool is_above = w->rest[strspn(w->rest, "/")] != '\0';
        if (!is_above && !to_the_end)
            return 0;
        if (lstat(name_of(w), &st) != 0)
            return errno == ENOENT || errno == ENOTDIR
                       ? 0
                       : err_sys(w->e, WARM_EIO, errno, "cannot look at %s, for %s", name_of(w),
                                 w->what);
        int code = check_part(w, &st, is_above);
        if (!code && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))) /* it would hold its reader */
            code = err_set(w->e, WARM_EINVALID, "%s: %s is no file", w->what, name_of(w));
        if (!code && S_ISLNK(st.st_mode))
            code = follow(w);
        if (code)
            return code;
        if (strlen(w->done) + strlen(w->rest) + 2 > sizeof w->done)
            return too_long(w);
    } while (next_part(w));
    return 0;
}

static int start(struct walk *w, const char *path)
{
    char folder[PATH_MAX] = "";
    if (*path != '/' && !getcwd(folder, sizeof folder))
        return err_sys(w->e, WARM_EIO, errno, "cannot tell the folder of %s", path);
    int len = snprintf(w->rest, sizeof w->rest, "%s/%s", folder, path);
    return len < 0 || (size_t)len + 2 > sizeof w->rest ? too_long(w) : 0;
}

int owned_path_check(const char *path, const char *what, struct err *e)
{
    struct walk w = {.what = what, .e = e};
    int code = start(&w, path);
    return code ? code : walk(&w, true);
}

int owned_path_check_folders(const char *path, const char *what, struct err *e)
{
    struct walk w = {.what = what, .e = e};
    int code = start(&w, path);
    return code ? code : walk(&w, false);
}
