/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials.c - reads the file of tier_credentials, the environment and the profiles of AWS. Each backend calls it
 * when it connects, and again later: the files may have changed.
 *
 * Thread: any.
 */
#include "tier/backends/credentials.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/owned_path.h"
#include "tier/setting_line.h"

#define LINE_BYTES 8192

static bool say(char *why, size_t why_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool say(char *why, size_t why_size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, why_size, format, args);
    va_end(args);
    return false;
}

/* ---- tier_credentials ---- */

/* Opens a file that nobody else can read. */
static FILE *open_private(const char *file, char *why, size_t why_size)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    bool loaded = !strchr(file, '/');
    char path[PATH_MAX];
    struct stat st;
    if (loaded && !folder) {
        say(why, why_size,
            "tier_credentials = %s is no path, and systemd gave no credentials: write the whole "
            "path, or LoadCredential=%s:PATH into the unit",
            file, file);
        return NULL;
    }
    snprintf(path, sizeof path, "%s%s%s", loaded ? folder : "", loaded ? "/" : "", file);
    struct err e;
    if (owned_path_check(path, "tier_credentials", &e) != 0) {
        say(why, why_size, "%s", e.text);
        return NULL;
    }
    FILE *f = fopen(path, "re");
    if (!f || fstat(fileno(f), &st) != 0) {
        say(why, why_size, "cannot read tier_credentials %s: %s", path, strerror(errno));
        if (f)
            fclose(f);
        return NULL;
    }
    /* systemd's files are the service's by an ACL, which shows as the group's right to read. */
    if (st.st_mode & (loaded ? 037 : 077)) {
        say(why, why_size, "others can read tier_credentials %s: chmod 600 it", path);
        fclose(f);
        return NULL;
    }
    return f;
}

static bool take_line(struct credentials *c, const char *name, const char *value)
{
    const struct {
        const char *name;
        char *to;
        size_t cap;
    } known[] = {{"user", c->user, sizeof c->user},
                 {"password", c->password, sizeof c->password},
                 {"token", c->token, sizeof c->token},
                 {"access_key", c->access_key, sizeof c->access_key},
                 {"secret_key", c->secret_key, sizeof c->secret_key},
                 {"session_token", c->session_token, sizeof c->session_token},
                 {"certificate", c->certificate, sizeof c->certificate},
                 {"key", c->key, sizeof c->key},
                 {"proxy", c->proxy, sizeof c->proxy}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return (size_t)snprintf(known[i].to, known[i].cap, "%s", value) < known[i].cap;
    return false;
}

bool credentials_read_file(const char *file, struct credentials *out, char *why, size_t why_size)
{
    char line[LINE_BYTES], *name, *value;
    bool good = true;
    *out = (struct credentials){0};
    if (!file || !*file)
        return true;
    FILE *f = open_private(file, why, why_size);
    if (!f)
        return false;
    for (unsigned n = 1; good && fgets(line, sizeof line, f); n++) {
        if (!setting_line_split(line, &name, &value))
            good =
                say(why, why_size, "tier_credentials %s: line %u is not \"name = value\"", file, n);
        else if (name && !take_line(out, name, value))
            good =
                say(why, why_size, "tier_credentials %s: line %u is unknown or too long", file, n);
    }
    fclose(f);
    explicit_bzero(line, sizeof line);
    if (good && !*out->access_key != !*out->secret_key)
        good = say(why, why_size, "tier_credentials %s has one of access_key and secret_key alone",
                   file);
    if (good && *out->access_key)
        snprintf(out->from, sizeof out->from, "tier_credentials");
    if (!good)
        credentials_wipe(out);
    return good;
}

/* ---- AWS ---- */

/* Writes the path of a file of AWS's: what a variable says, or ~/.aws/NAME. */
static bool aws_path(const char *variable, const char *name, char out[PATH_MAX])
{
    const char *said = getenv(variable), *home = getenv("HOME");
    int n = said && *said   ? snprintf(out, PATH_MAX, "%s", said)
            : home && *home ? snprintf(out, PATH_MAX, "%s/.aws/%s", home, name)
                            : -1;
    return n > 0 && n < PATH_MAX;
}

/* Finds a value in a section of an INI file. The section is [NAME] or [profile NAME]. */
static bool ini_find(const char *path, const char *section, const char *wanted, char *out,
                     size_t cap)
{
    char line[LINE_BYTES], *name, *value;
    bool inside = false, found = false;
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        char *at = setting_trim(line), *end = strchr(at, ']');
        if (*at == '[' && end) {
            *end = '\0';
            at = setting_trim(at + 1);
            if (strncmp(at, "profile ", 8) == 0)
                at = setting_trim(at + 8);
            inside = strcmp(at, section) == 0;
        } else if (inside && setting_line_split(at, &name, &value) && name &&
                   strcmp(name, wanted) == 0) {
            found = (size_t)snprintf(out, cap, "%s", value) < cap && *value;
        }
    }
    if (f)
        fclose(f);
    explicit_bzero(line, sizeof line);
    return found;
}

static bool copy_variable(const char *name, char *out, size_t cap)
{
    const char *value = getenv(name);
    return value && *value && (size_t)snprintf(out, cap, "%s", value) < cap;
}

bool credentials_read_aws(const char *profile, struct credentials *out, char *why, size_t why_size)
{
    char path[PATH_MAX];
    const char *named = profile ? profile : getenv("AWS_PROFILE");
    const char *section = named && *named ? named : "default";
    if (*out->access_key)
        return true;
    if (!profile && copy_variable("AWS_ACCESS_KEY_ID", out->access_key, sizeof out->access_key)) {
        if (!copy_variable("AWS_SECRET_ACCESS_KEY", out->secret_key, sizeof out->secret_key))
            return say(why, why_size, "AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not");
        copy_variable("AWS_SESSION_TOKEN", out->session_token, sizeof out->session_token);
        snprintf(out->from, sizeof out->from, "the environment");
        return true;
    }
    struct err e;
    if (!aws_path("AWS_SHARED_CREDENTIALS_FILE", "credentials", path))
        return true;
    if (owned_path_check(path, "the profiles of AWS", &e) != 0)
        return say(why, why_size, "%s", e.text);
    bool id = ini_find(path, section, "aws_access_key_id", out->access_key, sizeof out->access_key);
    bool secret =
        ini_find(path, section, "aws_secret_access_key", out->secret_key, sizeof out->secret_key);
    if (id != secret)
        return say(why, why_size, "the profile %.40s in %.80s has half of its keys", section, path);
    if (!id)
        return named && *named
                   ? say(why, why_size, "the profile %.40s is not in %.80s", section, path)
                   : true;
    ini_find(path, section, "aws_session_token", out->session_token, sizeof out->session_token);
    snprintf(out->from, sizeof out->from, "the profile %.40s", section);
    return true;
}

bool credentials_read_region(const char *profile, char *out, size_t cap)
{
    char path[PATH_MAX];
    const char *named = profile ? profile : getenv("AWS_PROFILE");
    if (copy_variable("AWS_REGION", out, cap) || copy_variable("AWS_DEFAULT_REGION", out, cap))
        return true;
    return aws_path("AWS_CONFIG_FILE", "config", path) &&
           owned_path_check(path, "the profiles of AWS", NULL) == 0 &&
           ini_find(path, named && *named ? named : "default", "region", out, cap);
}

void credentials_wipe(struct credentials *c) { explicit_bzero(c, sizeof *c); }
