/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - a GPU as a struct device: each call is one of the driver, and launches wait for their end, so that
 * a kernel's fault is the error of its launch. main.c and the tests call it.
 *
 * Thread: the thread that opened the GPU.
 */
#include "tests/demo/gpu.h"

#include <stdlib.h>

struct gpu {
    struct device device; /* first, so that its functions find the GPU */
    struct driver *driver;
    void *module;
};

static struct driver *driver_of(struct device *device) { return ((struct gpu *)device)->driver; }

static int gpu_alloc(struct device *device, size_t len, uint64_t *out_address, struct err *e)
{
    return driver_alloc(driver_of(device), len, out_address, e);
}

static void gpu_release(struct device *device, uint64_t address)
{
    driver_free(driver_of(device), address);
}

static int gpu_write(struct device *device, uint64_t to, const void *from, size_t len,
                     struct err *e)
{
    return driver_write(driver_of(device), to, from, len, e);
}

static int gpu_read(struct device *device, void *to, uint64_t from, size_t len, struct err *e)
{
    return driver_read(driver_of(device), to, from, len, e);
}

static int gpu_launch(struct device *device, const char *kernel, struct dims grid,
                      struct dims block, void **args, struct err *e)
{
    struct gpu *g = (struct gpu *)device;
    void *function = NULL;
    int rc = driver_function(g->driver, g->module, kernel, &function, e);
    if (rc == 0)
        rc = driver_launch(g->driver, function, (struct driver_dims){grid.x, grid.y},
                           (struct driver_dims){block.x, block.y}, args, e);
    return rc ? rc : driver_wait(g->driver, e);
}

int gpu_open(struct gpu **out, struct err *e)
{
    struct gpu *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, WARM_ENOMEM, "a GPU");
    g->device = (struct device){gpu_alloc, gpu_release, gpu_write, gpu_read, gpu_launch};
    int rc = driver_open(0, &g->driver, e);
    if (rc)
        free(g);
    else
        *out = g;
    return rc;
}

void gpu_close(struct gpu *g)
{
    if (!g)
        return;
    driver_unload(g->driver, g->module);
    driver_close(g->driver);
    free(g);
}

const struct driver *gpu_driver(const struct gpu *g) { return g->driver; }

int gpu_load(struct gpu *g, const void *cubin, size_t len, struct err *e)
{
    void *module = NULL;
    int rc = driver_load(g->driver, cubin, len, &module, e);
    if (rc)
        return rc;
    driver_unload(g->driver, g->module);
    g->module = module;
    return 0;
}

struct device *gpu_device(struct gpu *g) { return &g->device; }
