/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote.c - connects, asks and reports failures for the commands that talk to the daemon. It
 * decides their exit status; remote.h has the contract.
 *
 * Thread: main.
 */
#include "client/cli/remote.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/json_writer.h"
#include "client/cli/progress.h"
#include "client/cli/units.h"

bool remote_options(struct remote *r, const struct command *self, int argc, char **argv,
                    int *out_status)
{
    const struct cli_option rows[] = {REMOTE_ROWS(*r), {0}};
    return cli_options(self, argc, argv, rows, out_status);
}

int remote_open(struct remote *r)
{
    assert(r && !r->w);
    const char *timeout = getenv("WARM_TIMEOUT_MS");
    struct warm_options options = {.connect_timeout_ms =
                                       timeout && *timeout ? 0 : DEADLINE_PERSON_CONNECT_MS};
    char path[sizeof r->w->socket] = "", admin[sizeof r->w->socket];
    if (!r->socket)
        warm_default_socket(path, sizeof path);
    options.socket = r->socket ? r->socket : path;
    if (conn_admin_path(options.socket, admin, sizeof admin) && access(admin, W_OK) == 0) {
        struct warm_options as_admin = {admin, options.connect_timeout_ms, 0};
        if (warm_open(&r->w, &as_admin) == 0)
            return 0;
    }
    int code = warm_open(&r->w, &options);
    if (!code)
        return 0;
    r->w = NULL;
    const char *off = getenv("WARM_DISABLE");
    if (code == WARM_ENO_DAEMON && off && *off && strcmp(off, "0") != 0)
        cli_say("WARM_DISABLE is set: no daemon is asked");
    else if (code == WARM_ENO_DAEMON)
        cli_say("no daemon answers at %s (`warm run true` starts one; `warm doctor` says more)",
                options.socket);
    else if (code == WARM_EDENIED)
        cli_say("the daemon at %s: " REMOTE_NOT_YOURS, options.socket);
    else
        cli_say("%s at %s", err_text(code), options.socket);
    return code == WARM_EDENIED ? CLI_NO_DAEMON : remote_exit_status(code);
}

void remote_close(struct remote *r)
{
    warm_close(r->w);
    r->w = NULL;
}

int remote_exit_status(int code)
{
    switch (code) {
    case 0: return CLI_OK;
    case WARM_ENO_DAEMON:
    case WARM_ECLOSED:
    case WARM_ETIMEOUT:
    case WARM_EVERSION:
    case WARM_ESHUTDOWN: return CLI_NO_DAEMON;
    case WARM_EINVALID:
    case WARM_EREFUSED:
    case WARM_ENO_TOOLCHAIN:
    case WARM_ETOO_BIG:
    case WARM_EUNSUPPORTED: return CLI_USAGE;
    default: return CLI_FINDING;
    }
}

int remote_fail(const struct remote *r, int code)
{
    const char *text = warm_message(r->w);
    cli_say("%s", *text ? text : err_text(code));
    return remote_exit_status(code);
}

int remote_ask(struct remote *r, uint64_t tag, enum wire_type want, struct answer *out)
{
    assert(r && r->w && tag && out);
    int code = request_ask(r->w, tag, NULL, 0, conn_now_ms() + DEADLINE_PERSON_ANSWER_MS, out);
    if (code)
        return remote_fail(r, code);
    if (out->frame.type == want)
        return 0;
    if (out->frame.type == WIRE_MISS)
        return CLI_FINDING;
    return remote_fail(r, request_unexpected(r->w, out));
}

/* Takes the TEXT that the request in r->w->request asks for. */
static int take_text(struct remote *r, uint64_t tag, struct wire_text *out)
{
    struct answer answer;
    int status = remote_ask(r, tag, WIRE_TEXT, &answer);
    if (!status && wire_get_text(&answer.frame, out, &r->w->err))
        status = remote_fail(r, request_unexpected(r->w, &answer));
    return status;
}

int remote_text(struct remote *r, enum wire_type type, struct wire_text *out)
{
    assert(r && r->w && out);
    uint64_t tag = request_begin(r->w);
    wire_put_empty(&r->w->request, type, tag);
    return take_text(r, tag, out);
}

int remote_history(struct remote *r, const struct wire_history *question, struct wire_text *out)
{
    uint64_t tag = request_begin(r->w);
    wire_put_history(&r->w->request, tag, question);
    return take_text(r, tag, out);
}

int remote_report(struct remote *r, uint64_t tag, const char *what, struct wire_report *out)
{
    assert(r && r->w && what && out);
    struct answer answer;
    struct wire_progress progress;
    int code = request_ask(r->w, tag, NULL, 0, conn_now_ms() + DEADLINE_PERSON_ANSWER_MS, &answer);
    while (!code && answer.frame.type == WIRE_PROGRESS) {
        code = wire_get_progress(&answer.frame, &progress, &r->w->err);
        if (code)
            break;
        progress_show(what, progress.done, progress.total);
        code = request_next(r->w, tag, -1, conn_now_ms() + DEADLINE_PERSON_ANSWER_MS, &answer);
    }
    progress_end();
    if (!code &&
        (answer.frame.type != WIRE_REPORT || wire_get_report(&answer.frame, out, &r->w->err)))
        code = request_unexpected(r->w, &answer);
    return code ? remote_fail(r, code) : 0;
}

void remote_print_report(const struct remote *r, const char *done, const struct wire_report *report,
                         bool dry_run)
{
    assert(r && done && report);
    char size[UNITS_TEXT];
    if (r->as_json) {
        struct json j = {.out = stdout};
        json_open(&j, '{');
        json_key(&j, "entries"), json_u64(&j, report->n_entries);
        json_key(&j, "bytes"), json_u64(&j, report->n_bytes);
        json_key(&j, "dry_run"), json_bool(&j, dry_run);
        json_close(&j, '}');
        return;
    }
    units_size_text(report->n_bytes, size);
    printf("%s%s %" PRIu64 " %s, %s\n", dry_run ? "would have " : "", done, report->n_entries,
           report->n_entries == 1 ? "entry" : "entries", size);
}

double remote_clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

uint32_t remote_add_key(struct writer *list, const char *text)
{
    assert(list && text);
    struct key key;
    bool hex = key_from_text(text, strlen(text), &key);
    if (hex)
        wire_keys_add(list, WIRE_SPACE_KEY, key.bytes, sizeof key.bytes);
    wire_keys_add(list, WIRE_SPACE_NAME, text, strlen(text));
    return hex ? 2 : 1;
}
