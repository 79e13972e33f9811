/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unserved.c - tells `warm why` which loads of a program the driver alone serves, though the program asked for
 * WARM_DRIVER_JIT. driver.c and jit.c call it.
 *
 * Thread: any; each reason is told once a process.
 */
#include <stdatomic.h>
#include <stddef.h>

#include "client/preload/connection_pool.h"
#include "client/preload/driver/driver.h"

void driver_tell_unserved(enum unserved what)
{
    static const struct {
        const char *name, *reason;
    } known[] = {
        [UNSERVED_FAT] =
            {"a fat binary",
             "it is compressed, or holds more than one text: only the driver reads it"},
        [UNSERVED_OPTIONS] = {"cuLibraryLoadData", "it has options of the library, as those of "
                                                   "the CUDA runtime have: the driver loads it"},
        [UNSERVED_FILE] = {"cuModuleLoad", "the driver loads files itself"},
        [UNSERVED_LIBRARY_FILE] = {"cuLibraryLoadFromFile", "the driver loads files itself"},
    };
    static atomic_bool told[sizeof known / sizeof *known];
    if (!WARM_EXPECT((size_t)what < sizeof known / sizeof *known) || atomic_load(&told[what]))
        return;
    struct warm *w = connection_pool_borrow();
    if (w && !atomic_exchange(&told[what], true))
        warm_note(w, "uncacheable", known[what].name, known[what].reason);
    connection_pool_return(w);
}
