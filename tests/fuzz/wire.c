/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - any bytes as frames, as lists, and as packets of the channel. What a decoder takes,
 * its encoder must write back byte for byte: there is one way to say each thing. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/wire_any.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_frames(const uint8_t *data, size_t size)
{
    struct err e;
    struct wire_frame frame;
    long n;
    while ((n = wire_parse(data, size, &frame, &e)) > 0) {
        struct writer again;
        writer_init(&again, 0);
        if (wire_any(&frame, &again, &e) == 0 &&
            (again.failed || again.len != (size_t)n || memcmp(again.data, data, again.len) != 0))
            abort();
        writer_close(&again);
        data += n;
        size -= (size_t)n;
    }
}

static void try_lists(const uint8_t *data, size_t size)
{
    struct reader keys = reader_over(data, size), paths = keys, states = keys;
    enum wire_space space;
    struct view item;
    static struct wire_path_seen seen[4096];
    uint32_t n = 0;
    while (wire_keys_next(&keys, &space, &item))
        ;
    while (wire_paths_next(&paths, &item))
        ;
    while (n < sizeof seen / sizeof *seen && wire_states_next(&states, seen, n))
        n++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e;
    struct wire_open question;
    struct wire_opened answer;
    try_frames(data, size);
    try_lists(data, size);
    wire_get_open(data, size, &question, &e);
    wire_get_opened(data, size, &answer, &e);
    return 0;
}
