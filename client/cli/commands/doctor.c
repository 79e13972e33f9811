/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.c - `warm doctor`: checks the installation, and says how to repair it. main.c calls it.
 *
 * Checks run from the outside in: environment, socket, daemon, its administrator's socket, store,
 * toolchains, sandbox, GPU. Each prints one line: ok, warn or FAIL. If the socket or the daemon
 * fails, the rest is skipped.
 *
 * Thread: main.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/progress.h"
#include "client/cli/remote.h"
#include "client/cli/run/probe.h"
#include "client/cli/run/run.h"
#include "client/cli/run/settings.h"
#include "client/cli/units.h"
#include "client/exec/elf.h"
#include "client/lib/debug.h"
#include "client/lib/environment.h"
#include "client/wire/version.h"
#include "keygen/quantity.h"
#include "keygen/shown.h"

#define REFUSED_SHOWN 5u /* libraries */

enum health { HEALTH_OK, HEALTH_WARN, HEALTH_FAIL };

/* What --fix can do: a command of ours, with its one argument. */
#define FIX_LIST(X)                                                                                \
    X(START, "daemon", "start", "no daemon answers")                                               \
    X(RESTART, "daemon", "restart", "the daemon is of another version")                            \
    X(VERIFY, "verify", NULL, "values were damaged")
enum fix {
#define X(name, command, argument, why) FIX_##name,
    FIX_LIST(X)
#undef X
        FIXES
};

struct doctor {
    struct remote remote;
    bool fixes[FIXES]; /* those that would help */
    struct json json;
    bool colour;
    enum health worst;
};

static void finding(struct doctor *d, enum health health, const char *check, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));

static void finding(struct doctor *d, enum health health, const char *check, const char *format,
                    ...)
{
    static const char *const words[] = {"ok", "warn", "FAIL"};
    static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (d->remote.as_json) {
        json_open(&d->json, '{');
        json_key(&d->json, "check"), json_text(&d->json, check);
        json_key(&d->json, "health"),
            json_text(&d->json, health == HEALTH_FAIL ? "fail" : words[health]);
        json_key(&d->json, "text"), json_text(&d->json, text);
        json_close(&d->json, '}');
    } else {
        text[shown_clean(text, strlen(text))] = '\0';
        printf("%s%-4s%s  %-11s %s\n", d->colour ? colours[health] : "", words[health],
               d->colour ? "\033[0m" : "", check, text);
    }
    if (health > d->worst)
        d->worst = health;
}

/* ---- environment ---- */

extern char **environ;

/* True for variables that the manual names, and those that our programs set for one another. */
static bool is_setting(const char *name, size_t len)
{
    static const char *const known[] = {
        "WARM_DISABLE",    "WARM_DRIVER_JIT", "WARM_EXE",         "WARM_GRAPH_FFI",
        "WARM_JOBS",       "WARM_LIBRARY",    "WARM_LOG",         "WARM_MAX_SIZE",
        "WARM_MLIR",       "WARM_NVRTC",      "WARM_PROJECT",     "WARM_READONLY",
        "WARM_RECACHE",    "WARM_REGIONAL",   "WARM_SESSION",     "WARM_SOCKET",
        "WARM_STORE",      "WARM_TIMEOUT_MS", "WARM_TOOL_ACTIVE", "WARM_TOOL_DEBUG",
        "WARM_TOOL_EXACT", "WARM_TRACE",      "WARM_TRACE_CWD",   "WARM_XLA_AUTOTUNE",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == len && memcmp(known[i], name, len) == 0)
            return true;
    return false;
}

/* Prints the variables that look like settings and are none. */
static bool has_unknown_settings(struct doctor *d)
{
    bool any = false;
    for (char **e = environ; *e; e++) {
        size_t len = strcspn(*e, "=");
        if (strncmp(*e, "WARM_", 5) != 0 || is_setting(*e, len))
            continue;
        any = true;
        finding(d, HEALTH_WARN, "environment", "%.*s is no setting of warm: see warm(1)", (int)len,
                *e);
    }
    return any;
}

static void check_environment(struct doctor *d)
{
    static const char *const switches[][2] = {
        {"WARM_DISABLE", "the cache is off"},
        {"WARM_READONLY", "nothing is stored"},
        {"WARM_RECACHE", "everything is compiled anew"},
    };
    bool any = has_unknown_settings(d);
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        const char *value = getenv(switches[i][0]);
        if (!value || !*value || strcmp(value, "0") == 0)
            continue;
        any = true;
        finding(d, HEALTH_WARN, "environment", "%s is set: %s; unset it to use the cache",
                switches[i][0], switches[i][1]);
    }
    const char *timeout = getenv("WARM_TIMEOUT_MS");
    uint64_t ms;
    if (timeout && *timeout && !quantity_count(timeout, UINT32_MAX, &ms)) {
        any = true;
        finding(d, HEALTH_WARN, "environment",
                "WARM_TIMEOUT_MS is \"%s\", which is no number of milliseconds: it is ignored",
                timeout);
    }
    const char *log = getenv("WARM_LOG"), *path;
    enum debug_level level;
    if (log && *log && !debug_setting(log, &level, &path)) {
        any = true;
        finding(d, HEALTH_WARN, "environment",
                "WARM_LOG is \"%s\": it is error, warning, info or debug, and may have :/FILE",
                log);
    }
    if (!any)
        finding(d, HEALTH_OK, "environment", "nothing switches the cache off");
}

/* Checks the file of settings that a daemon of this user reads. */
static void check_settings(struct doctor *d)
{
    char path[PATH_MAX], said[1024];
    if (!settings_path(path) || access(path, F_OK) != 0)
        return;
    if (settings_check(path, said, sizeof said))
        finding(d, *said ? HEALTH_WARN : HEALTH_OK, "settings", "%s", *said ? said : path);
    else
        finding(d, HEALTH_FAIL, "settings", "%s; a daemon does not start with it", said);
}

/* ---- socket ---- */

/* Returns the reason why this socket was chosen. */
static const char *choice_of(const struct doctor *d, const char *path)
{
    const char *named = getenv("WARM_SOCKET");
    if (d->remote.socket)
        return "--socket";
    if (named && *named)
        return "WARM_SOCKET";
    if (strcmp(path, WARM_SYSTEM_SOCKET) != 0)
        return "your own";
    return geteuid() ? "the system's: you have no daemon of your own" : "the system's";
}

/* True if the user named the socket, so that a daemon should be there. */
static bool is_named(const struct doctor *d)
{
    const char *named = getenv("WARM_SOCKET");
    return d->remote.socket || (named && *named);
}

static bool check_socket(struct doctor *d, const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 && errno == ENOENT && !is_named(d)) {
        finding(d, HEALTH_OK, "socket", "%s (%s): no daemon yet; `warm run` starts one", path,
                choice_of(d, path));
        d->fixes[FIX_START] = true;
        return false;
    }
    if (stat(path, &st) < 0) {
        finding(d, HEALTH_FAIL, "socket",
                "%s (%s): %s; `warm run true` starts a daemon, or set WARM_SOCKET", path,
                choice_of(d, path), strerror(errno));
        d->fixes[FIX_START] = errno == ENOENT;
        return false;
    }
    if (!S_ISSOCK(st.st_mode)) {
        finding(d, HEALTH_FAIL, "socket", "%s is no socket; remove it and start warmd", path);
        return false;
    }
    if (access(path, W_OK) < 0) {
        finding(d, HEALTH_FAIL, "socket",
                "%s belongs to uid %u, mode %03o: not for you; ask its owner, or run your own "
                "warmd",
                path, (unsigned)st.st_uid, (unsigned)(st.st_mode & 0777));
        return false;
    }
    finding(d, HEALTH_OK, "socket", "%s (%s), uid %u, mode %03o", path, choice_of(d, path),
            (unsigned)st.st_uid, (unsigned)(st.st_mode & 0777));
    return true;
}

/* Checks the administrator's own socket, which stands beside a socket that others may use. */
static void check_admin(struct doctor *d, const char *path)
{
    char admin[sizeof d->remote.w->socket];
    struct stat st, shared;
    if (stat(path, &shared) < 0 || !(shared.st_mode & (S_IWGRP | S_IWOTH)))
        return;
    if (!conn_admin_path(path, admin, sizeof admin) || stat(admin, &st) < 0 ||
        !S_ISSOCK(st.st_mode))
        finding(d, HEALTH_WARN, "admin",
                "%s: there is none, so nobody lists or evicts what other users have; "
                "see admin in warmd.conf(5)",
                admin);
    else if (st.st_mode & (S_IRWXG | S_IRWXO))
        finding(d, HEALTH_FAIL, "admin", "%s may be used by others, mode %03o: chmod 600 it", admin,
                (unsigned)(st.st_mode & 0777));
    else
        finding(d, HEALTH_OK, "admin", "%s, uid %u, mode %03o%s", admin, (unsigned)st.st_uid,
                (unsigned)(st.st_mode & 0777), access(admin, W_OK) == 0 ? "" : ": not for you");
}

static bool check_daemon(struct doctor *d, const char *path)
{
    struct warm_options options = {.socket = path,
                                   .connect_timeout_ms = DEADLINE_PERSON_CONNECT_MS};
    int code = warm_open(&d->remote.w, &options);
    if (code) {
        d->remote.w = NULL;
        d->fixes[FIX_START] = code == WARM_ENO_DAEMON;
        finding(d, HEALTH_FAIL, "daemon", "%s",
                code == WARM_EDENIED ? REMOTE_NOT_YOURS : err_text(code));
        return false;
    }
    code = request_connect(d->remote.w);
    if (code) {
        finding(d, HEALTH_FAIL, "daemon", "%s", warm_message(d->remote.w));
        d->fixes[FIX_RESTART] = code == WARM_EVERSION && d->remote.w->conn.daemon_uid == geteuid();
        d->fixes[FIX_START] = code == WARM_ENO_DAEMON;
        return false;
    }
    const struct conn *conn = &d->remote.w->conn;
    if (strcmp(conn->daemon, "warmd " WARM_VERSION) == 0)
        finding(d, HEALTH_OK, "daemon", "%s, uid %u", conn->daemon, (unsigned)conn->daemon_uid);
    else
        finding(d, HEALTH_WARN, "daemon",
                "%s, but this is warm " WARM_VERSION "; restart the daemon", conn->daemon);
    d->fixes[FIX_RESTART] =
        strcmp(conn->daemon, "warmd " WARM_VERSION) != 0 && conn->daemon_uid == geteuid();
    return true;
}

/* ---- the daemon's own report ---- */

static double info_number(struct view info, const char *path)
{
    struct view v;
    double n;
    return json_reader_find(info, path, &v) && json_reader_number(v, &n) ? n : 0;
}

/* Copies a setting of the daemon's, or "". */
static void copy_setting(struct view info, const char *name, char *out, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "settings.%s.value", name);
    json_reader_copy(info, path, out, cap);
}

/* Names the set-up of docs/trust.md. */
static void check_trust(struct doctor *d, struct view info)
{
    char group[128], tier[512];
    copy_setting(info, "trust_group", group, sizeof group);
    copy_setting(info, "tier", tier, sizeof tier);
    finding(d, HEALTH_OK, "trust", "%s%s%s",
            *group ? "a group: members take one another's results: "
                   : "one user: you take your own results",
            group, *tier ? ", and a signed tier: those of trusted keys" : "");
}

static void check_store(struct doctor *d, struct view info)
{
    if (json_reader_is(info, "store.read_only", "true"))
        finding(d, HEALTH_FAIL, "store",
                "the disk is full or failing: serving, but not storing; make room, then restart "
                "warmd");
    if (json_reader_is(info, "store.rebuilt", "true"))
        finding(d, HEALTH_WARN, "store",
                "the index was damaged and has been rebuilt; check the disk, run `warm verify`");
    double dropped = info_number(info, "dropped");
    if (dropped > 0)
        finding(d, HEALTH_WARN, "store", "%.0f %s not kept since the start: see its log", dropped,
                dropped == 1 ? "value was" : "values were");
    d->fixes[FIX_VERIFY] = info_number(info, "store.corrupt") > 0;
    if (info_number(info, "store.corrupt") > 0)
        finding(d, HEALTH_WARN, "store", "%.0f damaged values found; check the disk and memory",
                info_number(info, "store.corrupt"));
    if (info_number(info, "store.old") > 0)
        finding(d, HEALTH_OK, "store", "%.0f %s of older key versions, to be evicted first",
                info_number(info, "store.old"),
                info_number(info, "store.old") == 1 ? "entry" : "entries");
    char size[UNITS_TEXT], most[UNITS_TEXT], wanted[UNITS_TEXT], left[UNITS_TEXT];
    double cap = info_number(info, "store.max_bytes"),
           max_size = info_number(info, "settings.max_size_bytes.value");
    units_size_text((uint64_t)cap, most);
    units_size_text((uint64_t)max_size, wanted);
    units_size_text((uint64_t)info_number(info, "settings.min_free_bytes.value"), left);
    if (cap < max_size)
        finding(d, HEALTH_WARN, "store",
                "its file system has less than %s (min_free) left: it may have %s instead of %s",
                left, most, wanted);
    struct statvfs disk;
    struct stat st;
    char folder[PATH_MAX];
    copy_setting(info, "store", folder, sizeof folder);
    if (*folder && stat(folder, &st) == 0 && (st.st_mode & S_IWOTH))
        finding(d, HEALTH_FAIL, "store",
                "everybody may write %s, so warmd will not start with it again: chmod o-w it",
                folder);
    if (*folder && statvfs(folder, &disk) == 0 &&
        (!disk.f_bavail || (disk.f_files && !disk.f_favail)))
        finding(d, HEALTH_FAIL, "store", "the file system of %s has no %s left: nothing is stored",
                folder, disk.f_bavail ? "files" : "room");
    units_size_text((uint64_t)info_number(info, "store.bytes"), size);
    finding(d, HEALTH_OK, "store", "%.0f entries, %s of at most %s",
            info_number(info, "store.entries"), size, most);
}

static void check_toolchains(struct doctor *d, struct view info)
{
    struct view list, item;
    char text[256], archs[256];
    size_t n = 0;
    if (json_reader_find(info, "toolchains", &list))
        for (; json_reader_item(list, n, &item); n++) {
            json_reader_copy(item, "text", text, sizeof text);
            json_reader_copy(item, "archs", archs, sizeof archs);
            finding(d, HEALTH_OK, "compiler", "%s: %s", text, archs);
        }
    if (n == 0)
        finding(
            d, HEALTH_WARN, "compiler",
            "the daemon has no NVRTC: CUDA C++ is compiled by the programs themselves. To change "
            "that, `pip install nvidia-cuda-nvrtc`, then `warm toolchain find` and `warm toolchain "
            "add PATH`, or set WARM_NVRTC to its folder");
    if (info_number(info, "workers.crashes") > 0)
        finding(d, HEALTH_WARN, "compiler", "%.0f compiler processes died; see the daemon's log",
                info_number(info, "workers.crashes"));
}

/* Lists NVRTCs of programs that the daemon does not load. */
static void check_refused(struct doctor *d, struct view info)
{
    struct view list, item;
    char path[512], why[512];
    if (!json_reader_find(info, "refused", &list))
        return;
    for (size_t i = 0; i < REFUSED_SHOWN && json_reader_item(list, i, &item); i++) {
        json_reader_copy(item, "path", path, sizeof path);
        json_reader_copy(item, "why", why, sizeof why);
        finding(
            d, HEALTH_WARN, "compiler",
            "%s is not loaded (%s): programs with it compile for themselves, and what includes no "
            "headers is kept for them",
            path, why);
    }
}

/* Checks the confinement of the compiler processes, which is known after the first has run. */
static void check_sandbox(struct doctor *d, struct view info)
{
    struct view landlock;
    if (json_reader_is(info, "workers.spawner", "false"))
        finding(d, HEALTH_FAIL, "compiler",
                "warmd has lost the process that starts compilers: nothing is compiled now");
    bool seccomp = json_reader_is(info, "workers.seccomp", "true");
    if (!json_reader_find(info, "workers.landlock", &landlock))
        return;
    double version = info_number(info, "workers.landlock");
    if (view_is(landlock, "null"))
        finding(d, HEALTH_OK, "sandbox", "unknown until a compiler has run");
    else if (version > 0 && seccomp)
        finding(d, HEALTH_OK, "sandbox", "Landlock %.0f and a system-call filter", version);
    else if (seccomp)
        finding(d, HEALTH_WARN, "sandbox",
                "this kernel has no Landlock: compilers are confined by their system-call filter "
                "alone");
    else
        finding(d, HEALTH_WARN, "sandbox", "compilers are confined by %s alone",
                version > 0 ? "Landlock" : "their user and their limits");
}

/* Checks for results that differed when they were compiled once more. */
static void check_audits(struct doctor *d, struct view info)
{
    double n = info_number(info, "audits.differences");
    if (n > 0)
        finding(
            d, HEALTH_FAIL, "audits",
            "%.0f of %.0f results were not what their sources compile to, and are in the store's "
            "folder quarantine/; check memory and disk, report it, and run `warm clear`",
            n, info_number(info, "audits.done"));
    else
        finding(d, HEALTH_OK, "audits", "%.0f hit%s compiled once more: all the same",
                info_number(info, "audits.done"),
                info_number(info, "audits.done") == 1 ? " was" : "s were");
}

/* Tries what the store beyond the machine can do. */
static void check_tier(struct doctor *d, struct view info)
{
    char url[1024], credentials[PATH_MAX], ca[PATH_MAX], words[400];
    struct tier_answer a = {0};
    copy_setting(info, "tier", url, sizeof url);
    copy_setting(info, "tier_credentials", credentials, sizeof credentials);
    copy_setting(info, "tier_ca", ca, sizeof ca);
    if (!*url)
        return;
    struct probe p = {.url = url, .credentials = credentials, .ca = ca};
    bool good = probe_tier(&p, &a, words, sizeof words) && probe_words(&a, words, sizeof words);
    bool is_less = !a.capabilities.writes || a.capabilities.clock_skew_ms > 60000;
    finding(d,
            !good     ? HEALTH_FAIL
            : is_less ? HEALTH_WARN
                      : HEALTH_OK,
            "tier", "%s: %s", url, words);
}

/* Prints the process id, and the places of the process's files. */
static void check_process(struct doctor *d, struct view info)
{
    char store[512], settings[512], log[512], age[UNITS_TEXT];
    json_reader_copy(info, "settings.store.value", store, sizeof store);
    json_reader_copy(info, "config_file", settings, sizeof settings);
    json_reader_copy(info, "log", log, sizeof log);
    units_age_text((uint64_t)info_number(info, "uptime_s") * 1000, age);
    finding(d, HEALTH_OK, "process", "pid %.0f, up %s, store %s, log %s, %s%s",
            info_number(info, "pid"), age, store, *log ? log : "nowhere",
            *settings ? "settings " : "no settings file", settings);
}

/* Says how much of the user's last run was not kept. */
static void check_last_run(struct doctor *d)
{
    struct wire_text text;
    struct view session;
    struct wire_history question = {.of = WIRE_HISTORY_LAST, .max_misses = 1};
    if (remote_history(&d->remote, &question, &text) ||
        !json_reader_find(text.text, "session", &session))
        return;
    unsigned long long n = json_reader_count(session, "unkept");
    if (n)
        finding(d, HEALTH_WARN, "last run", "%llu of its compiles %s not kept: `warm why` says why",
                n, n == 1 ? "was" : "were");
    else
        finding(d, HEALTH_OK, "last run", "%llu hit%s of %llu request%s",
                json_reader_count(session, "hits"), CLI_S(json_reader_count(session, "hits")),
                json_reader_count(session, "asked"), CLI_S(json_reader_count(session, "asked")));
}

/* Looks if the daemon that runs is the installed one: an upgrade may have replaced it. */
static void check_build(struct doctor *d, struct view info)
{
    struct run_places places;
    char path[PATH_MAX], runs[ELF_BUILD_TEXT], installed[ELF_BUILD_TEXT];
    json_reader_copy(info, "build", runs, sizeof runs);
    if (!*runs || !run_places_fill(&places, NULL))
        return;
    run_find_warmd(&places, path);
    elf_build_id(path, installed);
    if (*installed && strcmp(runs, installed) != 0)
        finding(d, HEALTH_WARN, "daemon",
                "it is another build of " WARM_VERSION " than %s: `warm daemon restart`", path);
}

static void check_info(struct doctor *d)
{
    struct wire_text text;
    if (remote_text(&d->remote, WIRE_INFO, &text)) {
        finding(d, HEALTH_FAIL, "daemon", "it connects but does not answer; see its log");
        return;
    }
    check_process(d, text.text);
    check_build(d, text.text);
    check_trust(d, text.text);
    check_store(d, text.text);
    check_toolchains(d, text.text);
    check_refused(d, text.text);
    check_sandbox(d, text.text);
    check_audits(d, text.text);
    check_tier(d, text.text);
    check_last_run(d);
}

/* ---- GPU ---- */

static void check_gpu(struct doctor *d)
{
    char line[256] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    if (!file || !fgets(line, sizeof line, file)) {
        finding(d, HEALTH_OK, "gpu", "no NVIDIA driver here: compiling works, running does not");
    } else if (access("/dev/nvidiactl", R_OK | W_OK) < 0) {
        finding(d, HEALTH_WARN, "gpu", "/dev/nvidiactl: %s; programs cannot use the GPU",
                strerror(errno));
    } else {
        line[strcspn(line, "\n")] = '\0';
        finding(d, HEALTH_OK, "gpu", "%s", line);
    }
    if (file)
        fclose(file);
}

/* Says which parts of the driver's shim are on. */
static void check_driver(struct doctor *d)
{
    const char *of_links = "links of the CUDA driver are kept";
    if (environment_is_set("WARM_DRIVER_JIT"))
        finding(d, HEALTH_OK, "driver", "%s, and PTX that programs load: WARM_DRIVER_JIT is set",
                of_links);
    else
        finding(d, HEALTH_OK, "driver",
                "%s; PTX that programs load is the driver's, which may make faster code of it: "
                "WARM_DRIVER_JIT=1 keeps it",
                of_links);
}

static int doctor_checks(struct doctor *d)
{
    char path[sizeof d->remote.w->socket];
    check_environment(d);
    check_settings(d);
    bool named = d->remote.socket != NULL;
    if (named ? strlen(d->remote.socket) >= sizeof path : warm_default_socket(path, sizeof path)) {
        finding(d, HEALTH_FAIL, "socket", "its path is too long for a socket");
        return CLI_NO_DAEMON;
    }
    if (named)
        strcpy(path, d->remote.socket);
    unsetenv("WARM_DISABLE"); /* it is reported; the daemon is checked all the same */
    bool reached = check_socket(d, path) && check_daemon(d, path);
    if (reached)
        check_admin(d, path);
    if (reached)
        check_info(d);
    check_gpu(d);
    check_driver(d);
    if (d->remote.w)
        remote_close(&d->remote);
    return !reached ? CLI_NO_DAEMON : d->worst == HEALTH_FAIL ? CLI_FINDING : CLI_OK;
}

/* ---- fixing ---- */

/* Runs one command of ours. True if it succeeded. */
static bool run_fix(const struct doctor *d, enum fix fix)
{
    static const char *const words[][3] = {
#define X(name, command, argument, why) {command, argument, why},
        FIX_LIST(X)
#undef X
    };
    static struct run_places places;
    char socket_option[] = "--socket", *argv[6];
    size_t n = 0;
    if (!run_places_fill(&places, d->remote.socket))
        return false;
    fflush(stdout);
    cli_say("%s: warm %s %s", words[fix][2], words[fix][0], words[fix][1] ? words[fix][1] : "");
    argv[n++] = places.exe;
    argv[n++] = (char *)(uintptr_t)words[fix][0];
    if (words[fix][1])
        argv[n++] = (char *)(uintptr_t)words[fix][1];
    if (d->remote.socket) {
        argv[n++] = socket_option;
        argv[n++] = places.socket;
    }
    argv[n] = NULL;
    return run_wait(argv) == 0;
}

/* Does what can be done. True if anything was done with success. */
static bool fix_all(struct doctor *d)
{
    bool any = false;
    for (enum fix fix = 0; fix < FIXES; fix++)
        if (d->fixes[fix])
            any |= run_fix(d, fix);
    return any;
}

static int check_all(struct doctor *d)
{
    if (d->remote.as_json)
        json_open(&d->json, '[');
    int status = doctor_checks(d);
    if (d->remote.as_json)
        json_close(&d->json, ']');
    return status;
}

static int doctor_run(const struct command *self, int argc, char **argv)
{
    struct doctor d = {.worst = HEALTH_OK, .json = {.out = stdout}};
    bool fix = false;
    int status;
    const struct cli_option options[] = {
        {"fix", '\0', NULL, &fix, NULL}, REMOTE_ROWS(d.remote), {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (fix && d.remote.as_json)
        return cli_usage(self, "--fix tells people what it does: without --json");
    d.colour = colour_wanted(stdout);
    status = check_all(&d);
    if (!fix || !fix_all(&d))
        return status;
    puts("after that:");
    d = (struct doctor){.remote = {.socket = d.remote.socket}, .colour = d.colour};
    return check_all(&d);
}

const struct command cmd_doctor = {
    .name = "doctor",
    .takes_nothing = true,
    .run = doctor_run,
    .summary = "Check socket, daemon, store, compilers and GPU",
    .synopsis = "[--fix] [--json]",
    .help = "Prints one line for each check, with a remedy if the check fails.\n\n"
            "Exit status 1 if something failed, 3 if no daemon answers.\n\n"
            "      --fix             repair, then check again: start a daemon if none answers,\n"
            "                        restart your own if its version differs, verify a store\n"
            "                        that has damaged values\n" REMOTE_HELP
            "\n--json is an array of objects: check, health (ok, warn, fail), text.\n\n"
            "Example:\n"
            "  $ warm doctor\n"
            "  ok    environment nothing switches the cache off\n"
            "  ok    socket      /run/warm/warmd.sock (the system's), uid 0, mode 666\n",
};
