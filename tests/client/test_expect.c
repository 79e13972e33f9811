/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_expect.c - broken promises: they switch `warm` off in other people's programs, and end ours.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/warm.h"
#include "client/wire/wire.h"
#include "keygen/expect.h"
#include "tests/support/support.h"

Test(expect, a_kept_promise_changes_nothing)
{
    cr_expect(WARM_EXPECT(1 + 1 == 2));
    cr_expect_not(expect_is_off());
}

/* Listens at a path of a temporary folder, and opens a connection there. */
static int open_connection(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct warm *w = NULL;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(fd, 4), 0);
    int code = warm_open(&w, &(struct warm_options){.socket = path});
    if (code == 0)
        warm_close(w);
    close(fd);
    unlink(path);
    return code;
}

Test(expect, a_broken_promise_switches_warm_off_for_good)
{
    char folder[] = "/tmp/warm-expect-XXXXXX", path[64];
    struct writer w;
    promise_may_break = true;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
    cr_expect_eq(open_connection(path), 0);
    writer_init(&w, 0);
    wire_begin(&w, WIRE_GET, WIRE_FDS_MAX + 1, 1);
    cr_expect(w.failed, "the frame is not sent");
    writer_close(&w);
    cr_expect(expect_is_off());
    cr_expect_eq(open_connection(path), WARM_ENO_DAEMON);
    rmdir(folder);
}

Test(expect, a_broken_promise_ends_our_own_programs, .signal = SIGABRT)
{
    expect_abort();
    (void)WARM_EXPECT(1 + 1 == 3);
}
