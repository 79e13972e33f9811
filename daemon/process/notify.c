/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.c - sends one datagram to $NOTIFY_SOCKET. Source: sd_notify(3), "Implementation".
 *
 * main.c reports its start, its end and its watchdog.
 *
 * Thread: any; no state.
 */
#include "daemon/process/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *format, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    if (len == 0 || len >= sizeof address.sun_path || (*path != '/' && *path != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (*path == '@')
        address.sun_path[0] = '\0'; /* the abstract namespace */
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0)
        return;
    size_t text_len = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    (void)!sendto(fd, text, text_len, MSG_NOSIGNAL | MSG_DONTWAIT,
                  (const struct sockaddr *)&address, address_len);
    close(fd);
}

uint64_t notify_watchdog_ms(void)
{
    const char *limit_us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!limit_us || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    return strtoull(limit_us, NULL, 10) / 2000;
}
