/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closer.h - closes descriptors on a thread of its own, if that may take long: closing a memfd frees its
 * pages, 0.1 s for each GiB, and closing a socket frees the descriptors in it.
 *
 * Thread: any. Memory: none.
 */
#ifndef WARM_DAEMON_PROCESS_CLOSER_H
#define WARM_DAEMON_PROCESS_CLOSER_H

/* Takes a descriptor, and closes it soon. */
void fd_close_later(int fd);

#endif
