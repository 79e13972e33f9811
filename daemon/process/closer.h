/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closer.h - closes descriptors whose last close may take long, on a thread of its own: that of a
 * memfd frees its pages, 0.1 s for each GiB, and that of a socket frees the descriptors that nobody
 * took from it.
 *
 * Thread: any.
 */
#ifndef WARM_DAEMON_PROCESS_CLOSER_H
#define WARM_DAEMON_PROCESS_CLOSER_H

/* Takes a descriptor, and closes it soon. */
void fd_close_later(int fd);

#endif
