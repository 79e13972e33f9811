/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon.c - `warm daemon`: shows, starts and stops the user's own daemon, and prints its log. main.c
 * calls it; run/start_daemon.c starts daemons, run/user_units.c hands them to systemd.
 *
 * A daemon is stopped by a signal to the process that INFO names. The kernel must name the same
 * process as the peer of the socket: a service manager that listens itself is not stopped here.
 *
 * Thread: main.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/remote.h"
#include "client/cli/run/run.h"
#include "client/cli/run/settings.h"
#include "client/cli/units.h"

#define STOP_WAIT_MS 15000 /* a stopping daemon waits 6 s for its open requests */
#define LOG_LINES 10u
#define LOG_TAIL 65536 /* bytes of the log's end that are looked at */

/* The part of a daemon's INFO that these commands print. */
struct status {
    pid_t pid;
    unsigned uid;
    char store[512], version[64], settings[PATH_MAX]; /* "": it has no file of settings */
    unsigned long long uptime_s;
};

/* Asks the daemon. 0, or an exit status after printing the reason. */
static int ask_status(struct remote *r, struct status *out)
{
    struct wire_text text;
    int status = remote_open(r);
    if (status)
        return status;
    *out = (struct status){0};
    status = remote_text(r, WIRE_INFO, &text);
    if (!status) {
        out->pid = (pid_t)json_reader_count(text.text, "pid");
        out->uid = (unsigned)json_reader_count(text.text, "uid");
        json_reader_copy(text.text, "settings.store.value", out->store, sizeof out->store);
        json_reader_copy(text.text, "version", out->version, sizeof out->version);
        json_reader_copy(text.text, "config_file", out->settings, sizeof out->settings);
        status = remote_text(r, WIRE_STATS, &text);
    }
    if (!status)
        out->uptime_s = json_reader_count(text.text, "uptime_s");
    if (status)
        remote_close(r);
    return status;
}

/* ---- status ---- */

static void print_status(const struct remote *r, const struct status *s, const char *socket)
{
    char uptime[UNITS_TEXT];
    if (r->as_json) {
        struct json j = {.out = stdout};
        json_open(&j, '{');
        json_key(&j, "pid"), json_u64(&j, (uint64_t)s->pid);
        json_key(&j, "uid"), json_u64(&j, s->uid);
        json_key(&j, "version"), json_text(&j, s->version);
        json_key(&j, "socket"), json_text(&j, socket);
        json_key(&j, "store"), json_text(&j, s->store);
        json_key(&j, "uptime_s"), json_u64(&j, s->uptime_s);
        json_close(&j, '}');
        return;
    }
    printf("running: warmd %s, pid %ld, uid %u\n", s->version, (long)s->pid, s->uid);
    units_span_text(s->uptime_s * 1000, uptime);
    printf("socket   %s\nstore    %s\nuptime   %s\n", socket, s->store, uptime);
}

/* ---- start ---- */

static int start(const struct run_places *places, const char *done)
{
    enum run_daemon daemon = run_daemon_look(places);
    if (daemon == RUN_DAEMON_ANSWERS) {
        printf("a daemon answers at %s already\n", places->socket);
        return CLI_OK;
    }
    if (daemon == RUN_DAEMON_NONE)
        daemon = run_daemon_start(places);
    if (daemon != RUN_DAEMON_ANSWERS)
        return CLI_NO_DAEMON;
    printf("%s: %s\n", done, places->socket);
    return CLI_OK;
}

/* ---- stop ---- */

/* Returns a handle of the daemon's process, or -1 after printing the reason. */
static int daemon_process(const struct remote *r, const struct status *s)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    int pidfd =
        (int)syscall(SYS_pidfd_open, s->pid, 0); /* before the check: the pid cannot change */
    if (pidfd < 0) {
        cli_say("process %ld: %s", (long)s->pid, strerror(errno));
        return -1;
    }
    if (getsockopt(r->w->conn.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid == s->pid)
        return pidfd;
    cli_say(
        "%s is held by process %ld, the daemon is process %ld: stop it with its service manager "
        "(systemctl stop warmd.socket warmd.service)",
        r->w->socket, (long)peer.pid, (long)s->pid);
    close(pidfd);
    return -1;
}

/* Sends SIGTERM and waits until the process has ended. */
static int end_process(int pidfd, pid_t pid)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    if (syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0) != 0) {
        cli_say("cannot stop process %ld: %s", (long)pid, strerror(errno));
        return CLI_FINDING;
    }
    if (poll(&ended, 1, STOP_WAIT_MS) == 1) {
        printf("stopped: process %ld\n", (long)pid);
        return CLI_OK;
    }
    cli_say("process %ld has not ended after %d s", (long)pid, STOP_WAIT_MS / 1000);
    return CLI_FINDING;
}

static int stop(struct remote *r)
{
    struct status s;
    int status = ask_status(r, &s);
    if (status)
        return status;
    int pidfd = daemon_process(r, &s);
    remote_close(r); /* the daemon waits for its clients */
    if (pidfd < 0)
        return CLI_FINDING;
    status = end_process(pidfd, s.pid);
    close(pidfd);
    return status;
}

/* ---- reload and restart ---- */

/* False, after printing the reason, if no daemon starts with a file of settings. */
static bool are_sound(const char *path)
{
    char said[512];
    if (!*path || access(path, F_OK) != 0 || settings_check(path, said, sizeof said))
        return true;
    cli_say("%s; the daemon goes on as it is", said);
    return false;
}

/* Makes the daemon read its settings again. */
static int reload(struct remote *r)
{
    struct status s;
    int status = ask_status(r, &s);
    if (status)
        return status;
    int pidfd = daemon_process(r, &s);
    remote_close(r);
    if (pidfd < 0)
        return CLI_FINDING;
    if (!are_sound(s.settings))
        status = CLI_FINDING;
    else if (syscall(SYS_pidfd_send_signal, pidfd, SIGHUP, NULL, 0) == 0)
        printf("process %ld reads its settings again; its log says what needs a restart\n",
               (long)s.pid);
    else
        cli_say("cannot reach process %ld: %s", (long)s.pid, strerror(errno)), status = CLI_FINDING;
    close(pidfd);
    return status;
}

/* Stops the daemon, if there is one, and starts it. */
static int restart(struct remote *r, const struct run_places *places)
{
    char path[PATH_MAX];
    int status = CLI_OK;
    if (run_daemon_look(places) == RUN_DAEMON_ANSWERS)
        status = settings_path(path) && !are_sound(path) ? CLI_FINDING : stop(r);
    return status ? status : start(places, "started");
}

/* ---- log ---- */

static void print_log_json(const char *path, const char *lines, size_t len)
{
    struct json j = {.out = stdout};
    json_open(&j, '{');
    json_key(&j, "path"), json_text(&j, path);
    json_key(&j, "lines"), json_open(&j, '[');
    while (len) {
        const char *end = memchr(lines, '\n', len);
        size_t n = end ? (size_t)(end - lines) : len;
        json_bytes(&j, lines, n);
        n += end != NULL;
        lines += n;
        len -= n;
    }
    json_close(&j, ']');
    json_close(&j, '}');
}

static int print_log(const struct run_places *places, bool as_json)
{
    char path[RUN_SOCKET_MAX + 8];
    static char tail[LOG_TAIL];
    snprintf(path, sizeof path, "%s.log", places->socket);
    FILE *log = fopen(path, "re");
    if (!log) {
        cli_say("%s: %s (a service's log: journalctl -u warmd)", path, strerror(errno));
        return CLI_FINDING;
    }
    fseek(log, 0, SEEK_END);
    long size = ftell(log);
    fseek(log, size > LOG_TAIL ? size - LOG_TAIL : 0, SEEK_SET);
    size_t len = fread(tail, 1, sizeof tail, log);
    fclose(log);
    unsigned n = 0;
    const char *lines = tail + len; /* the last LOG_LINES lines */
    while (lines > tail && (lines == tail + len || lines[-1] != '\n' || ++n < LOG_LINES))
        lines--;
    size_t shown = (size_t)(tail + len - lines);
    if (as_json) {
        print_log_json(path, lines, shown);
        return CLI_OK;
    }
    printf("%s\n", path);
    fwrite(lines, 1, shown, stdout);
    return CLI_OK;
}

static int daemon_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct run_places places;
    int status;
    if (!remote_options(&r, self, argc, argv, &status))
        return status;
    const char *verb = argc - optind == 1 ? argv[optind] : "";
    if (!run_places_fill(&places, r.socket)) {
        cli_say("cannot tell where the daemon's socket is");
        return CLI_USAGE;
    }
    if (strcmp(verb, "status") == 0) {
        struct status s;
        status = ask_status(&r, &s);
        if (status)
            return status;
        print_status(&r, &s, places.socket);
        remote_close(&r);
        return CLI_OK;
    }
    if (strcmp(verb, "start") == 0)
        return start(&places, "started");
    if (strcmp(verb, "stop") == 0)
        return stop(&r);
    if (strcmp(verb, "reload") == 0)
        return reload(&r);
    if (strcmp(verb, "restart") == 0)
        return restart(&r, &places);
    if (strcmp(verb, "log") == 0)
        return print_log(&places, r.as_json);
    if (strcmp(verb, "install") == 0)
        return run_units_install(&places);
    if (strcmp(verb, "uninstall") == 0)
        return run_units_uninstall();
    return cli_usage(
        self, "name one of status, start, stop, reload, restart, log, install and uninstall");
}

const struct command cmd_daemon = {
    .name = "daemon",
    .run = daemon_run,
    .summary = "Show, start or stop the daemon, or print its log",
    .synopsis = "status|start|stop|reload|restart|log|install|uninstall [--json]",
    .help =
        "status prints pid, socket, store and uptime; start starts this user's own daemon as\n"
        "`warm run` does; stop ends it and waits until it has gone; reload makes it read its\n"
        "settings again; log prints the path and the last lines of the log of a daemon that was\n"
        "started so.\n\n"
        "install makes systemd start this user's daemon when the first client connects, without\n"
        "root; uninstall takes that back.\n\n"
        "Exit status 3 if no daemon answers.\n\n" REMOTE_HELP "\nExample:\n"
        "  $ warm daemon restart\n"
        "  stopped: process 4711\n"
        "  started: /run/user/1000/warm/warmd.sock\n",
};
