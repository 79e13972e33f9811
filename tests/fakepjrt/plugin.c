/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.c - a stand-in for a plugin of the PJRT C API, for tests: what it "compiles" is a text, and
 * it notes each call in the file $FAKE_PJRT_LOG. Built by test_preload_pjrt.c.
 *
 * $FAKE_PJRT_MINOR, $FAKE_PJRT_DEVICES: what it says of itself. $FAKE_PJRT_NO_LOAD: nothing that was
 * serialized loads; $FAKE_PJRT_NO_SERIALIZE: nothing is. Programs that hold the word "fails" do not compile.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/preload/pjrt/api.h"

enum { N_SLOTS = 80, MOST_DEVICES = 8 };

struct pjrt_error {
    int unused;
};
struct pjrt_device {
    int unused;
};
struct pjrt_loaded_executable {
    char text[256];
};

static struct pjrt_device devices[MOST_DEVICES];

static void note(const char *what)
{
    const char *path = getenv("FAKE_PJRT_LOG");
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    dprintf(fd, "%s\n", what);
    close(fd);
}

static struct pjrt_error *failure(void) { return calloc(1, sizeof(struct pjrt_error)); }

static void error_destroy(struct pjrt_object_args *a) { free(a->object); }

static struct pjrt_error *say(struct pjrt_text_args *a, const char *text)
{
    a->text = text;
    a->len = strlen(text);
    return NULL;
}
static struct pjrt_error *platform_name(struct pjrt_text_args *a) { return say(a, "cpu"); }
static struct pjrt_error *platform_version(struct pjrt_text_args *a) { return say(a, "fake 1"); }
static struct pjrt_error *attributes(struct pjrt_attributes_args *a)
{
    static const struct pjrt_named_value known[] = {{.head = {sizeof known[0], NULL},
                                                     .name = "slice_index",
                                                     .name_len = 11,
                                                     .type = 1,
                                                     .len = 1},
                                                    {.head = {sizeof known[0], NULL},
                                                     .name = "compute_capability",
                                                     .name_len = 18,
                                                     .value.text = "9.0",
                                                     .len = 3}};
    a->attributes = known;
    a->n_attributes = 2;
    return NULL;
}
static struct pjrt_error *device_kind(struct pjrt_text_args *a) { return say(a, "fake device"); }

static struct pjrt_error *process_index(struct pjrt_process_index_args *a)
{
    a->process_index = 0;
    return NULL;
}

static struct pjrt_error *client_devices(struct pjrt_devices_args *a)
{
    static struct pjrt_device *list[MOST_DEVICES];
    const char *n = getenv("FAKE_PJRT_DEVICES");
    a->n_devices = n ? strtoul(n, NULL, 10) % (MOST_DEVICES + 1) : 1;
    for (size_t i = 0; i < a->n_devices; i++)
        list[i] = &devices[i];
    a->devices = list;
    return NULL;
}

/* The first FAKE_PJRT_OWN of them, else all; where that is no number, nobody knows. */
static struct pjrt_error *addressable_devices(struct pjrt_devices_args *a)
{
    client_devices(a);
    const char *n = getenv("FAKE_PJRT_OWN");
    if (!n)
        return NULL;
    a->n_devices = strtoul(n, NULL, 10);
    return a->n_devices ? NULL : failure();
}

static struct pjrt_error *description(struct pjrt_description_args *a)
{
    a->description = (struct pjrt_device_description *)a->device;
    return NULL;
}

static struct pjrt_error *compile(struct pjrt_compile_args *a)
{
    note("compile");
    if (memmem(a->program->code, a->program->code_len, "fails", 5))
        return failure();
    a->executable = calloc(1, sizeof *a->executable);
    snprintf(a->executable->text, sizeof a->executable->text, "made of %zu and %zu bytes",
             a->program->code_len, a->options_len);
    return NULL;
}

static struct pjrt_error *get_executable(struct pjrt_get_executable_args *a)
{
    a->executable = (struct pjrt_executable *)a->loaded;
    return NULL;
}

static void no_free(struct pjrt_serialized_executable *unused) { (void)unused; }

static struct pjrt_error *serialize(struct pjrt_serialize_args *a)
{
    const struct pjrt_loaded_executable *e = (const struct pjrt_loaded_executable *)a->executable;
    note("serialize");
    if (getenv("FAKE_PJRT_NO_SERIALIZE"))
        return failure();
    a->data = e->text;
    a->len = strlen(e->text);
    a->free_serialized = no_free;
    return NULL;
}

static struct pjrt_error *executable_destroy(struct pjrt_object_args *a)
{
    (void)a;
    return NULL;
}

static struct pjrt_error *deserialize(struct pjrt_deserialize_args *a)
{
    note("load");
    if (getenv("FAKE_PJRT_NO_LOAD") || a->len >= sizeof a->executable->text)
        return failure();
    a->executable = calloc(1, sizeof *a->executable);
    memcpy(a->executable->text, a->data, a->len);
    return NULL;
}

static struct pjrt_error *register_call(struct pjrt_register_args *a)
{
    (void)a;
    note("register");
    return NULL;
}

static struct pjrt_ffi_extension ffi = {
    {sizeof ffi, PJRT_EXTENSION_FFI, NULL}, NULL, NULL, register_call};
static struct pjrt_extension other = {sizeof other, 9, &ffi.base};

static struct {
    struct pjrt_api head;
    pjrt_function fn[N_SLOTS];
} table;

const struct pjrt_api *GetPjrtApi(void);
__attribute__((visibility("default"))) const struct pjrt_api *GetPjrtApi(void)
{
    const char *minor = getenv("FAKE_PJRT_MINOR");
    table.head.struct_size = offsetof(struct pjrt_api, fn) + sizeof table.fn;
    table.head.extensions = &other;
    table.head.version = (struct pjrt_version){sizeof table.head.version, NULL, 0,
                                               minor ? atoi(minor) : PJRT_MINOR_MAX};
    pjrt_function *fn = table.head.fn;
    fn[PJRT_ERROR_DESTROY] = (pjrt_function)error_destroy;
    fn[PJRT_CLIENT_PLATFORM_NAME] = (pjrt_function)platform_name;
    fn[PJRT_CLIENT_PLATFORM_VERSION] = (pjrt_function)platform_version;
    fn[PJRT_CLIENT_PROCESS_INDEX] = (pjrt_function)process_index;
    fn[PJRT_CLIENT_DEVICES] = (pjrt_function)client_devices;
    fn[PJRT_CLIENT_ADDRESSABLE_DEVICES] = (pjrt_function)addressable_devices;
    fn[PJRT_CLIENT_COMPILE] = (pjrt_function)compile;
    fn[PJRT_DEVICE_DESCRIPTION_ATTRIBUTES] = (pjrt_function)attributes;
    fn[PJRT_DEVICE_DESCRIPTION_KIND] = (pjrt_function)device_kind;
    fn[PJRT_DEVICE_GET_DESCRIPTION] = (pjrt_function)description;
    fn[PJRT_EXECUTABLE_DESTROY] = (pjrt_function)executable_destroy;
    fn[PJRT_EXECUTABLE_SERIALIZE] = (pjrt_function)serialize;
    fn[PJRT_LOADED_EXECUTABLE_GET_EXECUTABLE] = (pjrt_function)get_executable;
    fn[PJRT_EXECUTABLE_DESERIALIZE_AND_LOAD] = (pjrt_function)deserialize;
    return &table.head;
}

/* What the tests look at: the text of an executable. */
const char *fake_pjrt_text(const struct pjrt_loaded_executable *e);
__attribute__((visibility("default"))) const char *
fake_pjrt_text(const struct pjrt_loaded_executable *e)
{
    return e->text;
}
