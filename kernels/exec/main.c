/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warm-exec: runs a bundle on this machine's GPU, or its module on the CPU. `warm exec`, which has the help, starts it: that
 * program is static and cannot load the driver.
 *
 *     read the bundle and its inputs → open the driver → load → run once
 *       → again as often as --repeat says, as a CUDA graph if it is no long loop → write or print the results
 *
 * Exit status: 0 done; 1 no GPU that can run it, or a fault there; 2 usage, or an input that cannot be used.
 *
 * Thread: main.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernels/exec/cpu.h"
#include "kernels/exec/exec.h"
#include "kernels/exec/npy.h"
#include "keygen/json.h"
#include "keygen/shown.h"

#define FILE_MAX ((off_t)1 << 36)
#define DISTANCE_MAX 4096 /* roundings of a type: some hundred operations and long sums */
#define SHOWN 6           /* elements of a result without -o */
#define REPEAT_MAX 1000000000L
#define NODES_MAX 4096u /* of a CUDA graph: a driver needs kilobytes and microseconds for each */

enum status { DONE = 0, FINDING = 1, USAGE = 2 };

struct bytes {
    uint8_t *data; /* owned */
    size_t len;
};

struct run {
    const char *path, *folder; /* of the bundle; of the results, or NULL */
    char **inputs;
    uint32_t n_inputs;
    long repeat;
    bool as_json, on_cpu, checks;
    uint8_t **arguments, **results; /* elements: of all arguments; of all results by the CPU */
    struct bytes file;
    struct graph_bundle b;
    struct driver *d;
    struct graph_exec *x;
    double load_ms, first_ms, each_ms;
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Prints "warm: MESSAGE" on stderr, and returns the status. The message may have names of a bundle of anybody. */
__attribute__((format(printf, 2, 3))) static int say(int status, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    text[shown_clean(text, strlen(text))] = '\0';
    fprintf(stderr, "warm: %s\n", text);
    return status;
}

/* Returns what kept a file from being read. */
static const char *read_error(int error)
{
    return error == EINVAL ? "not a regular file" : strerror(error);
}

/* Reads a whole file. Returns 0 or an errno. */
static int read_file(const char *path, struct bytes *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold us */
    struct stat st;
    struct writer w;
    if (fd < 0)
        return errno;
    bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode),
         fits = is_file && st.st_size <= FILE_MAX;
    FILE *f = fits ? fdopen(fd, "rb") : NULL;
    if (!f) {
        close(fd);
        return is_file               ? EFBIG
               : S_ISDIR(st.st_mode) ? EISDIR
                                     : EINVAL; /* no file may have no end */
    }
    writer_init(&w, (size_t)FILE_MAX);
    for (size_t n = 1; n && !w.failed;) {
        uint8_t part[65536];
        n = fread(part, 1, sizeof part, f);
        writer_bytes(&w, part, n);
    }
    int error = ferror(f) ? EIO : w.failed ? ENOMEM : 0;
    fclose(f);
    if (!error && !(out->data = writer_take(&w, &out->len)) && out->len)
        error = ENOMEM;
    writer_close(&w);
    return error;
}

/* ---- inputs ---- */

/* Copies an argument of equal elements, "=0.5", to the device. */
static int fill_argument(struct run *run, uint32_t i, const char *number)
{
    const struct tensor *type = &run->b.buffers.at[i].type;
    uint32_t size = program_elem_size(type->elem);
    struct err e = {0};
    char *end;
    double x = strtod(number, &end);
    if (end == number || *end)
        return say(USAGE, "=%s: not a number", number);
    enum elem_kind kind = program_elem_kind(type->elem);
    double most = ldexp(1, (int)(8 * size) - (kind == KIND_SIGNED));
    if (program_is_whole(type->elem) && !(x >= (kind == KIND_SIGNED ? -most : 0) && x < most))
        return say(USAGE, "=%s: argument %" PRIu32 " is of whole numbers of %" PRIu32 " bits",
                   number, i, 8 * size);
    uint8_t *elements = malloc((size_t)type->n * size + 1);
    for (int64_t k = 0; elements && k < type->n; k++)
        program_elem_put(type->elem, x, elements + k * size);
    run->arguments[i] = elements;
    int rc = !elements ? err_set(&e, WARM_ENOMEM, "an argument")
             : run->x  ? graph_exec_write(run->x, i, elements, &e)
                       : 0;
    return rc ? say(FINDING, "argument %" PRIu32 ": %s", i, e.text) : DONE;
}

static int write_argument(struct run *run, uint32_t i)
{
    const char *path = run->inputs[i];
    struct bytes file = {NULL, 0};
    struct view elements;
    struct err e = {0};
    if (*path == '=')
        return fill_argument(run, i, path + 1);
    int error = read_file(path, &file);
    if (error)
        return say(USAGE, "%s: %s", path, read_error(error));
    int status = DONE;
    if (npy_read(file.data, file.len, &run->b.buffers.at[i].type, &elements, &e))
        status = say(USAGE, "%s: argument %" PRIu32 ": %s", path, i, e.text);
    else if (!(run->arguments[i] = malloc(elements.len + 1)))
        status = say(FINDING, "out of memory");
    else if (run->x && graph_exec_write(run->x, i, elements.data, &e))
        status = say(FINDING, "%s: %s", path, e.text);
    if (!status && elements.len)
        memcpy(run->arguments[i], elements.data, elements.len);
    free(file.data);
    return status;
}

/* Checks the number of inputs before a GPU is looked for. */
static int check_inputs(const struct run *run)
{
    uint32_t n = run->b.n_arguments;
    char type[128];
    if (run->n_inputs > n)
        return say(USAGE, "%s: it takes %" PRIu32 " inputs, not %" PRIu32, run->path, n,
                   run->n_inputs);
    if (run->n_inputs == n)
        return DONE;
    npy_type_text(&run->b.buffers.at[run->n_inputs].type, type, sizeof type);
    return say(USAGE,
               "%s: it takes %" PRIu32 " inputs, not %" PRIu32 ": argument %" PRIu32
               " is %s. Give a file, or =0 for zeros",
               run->path, n, run->n_inputs, run->n_inputs, type);
}

/* ---- results ---- */

static int write_result(const struct run *run, uint32_t i, const struct tensor *type,
                        const void *elements)
{
    struct writer npy;
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%" PRIu32 ".npy", run->folder, i) >= (int)sizeof path)
        return say(USAGE, "%s: too long a path", run->folder);
    writer_init(&npy, 0);
    npy_write(type, elements, &npy);
    errno = ENOMEM; /* unless it is another */
    FILE *f = npy.failed ? NULL : fopen(path, "wb");
    bool ok = f && fwrite(npy.data, 1, npy.len, f) == npy.len;
    if (f && fclose(f) != 0)
        ok = false;
    int error = errno;
    writer_close(&npy);
    return ok ? DONE : say(USAGE, "%s: %s", path, strerror(error));
}

/* Compares a result of the GPU with the CPU's. */
static int compare_result(const struct run *run, uint32_t i, const struct tensor *type,
                          const void *elements)
{
    double distance = cpu_distance(type, elements, run->results[i]);
    if (distance > DISTANCE_MAX)
        return say(FINDING,
                   "%s: result %" PRIu32
                   " is not that of the CPU: it differs by %g roundings of its type",
                   run->path, i, distance);
    printf("result %" PRIu32 "  within %.3g roundings of the CPU's\n", i, distance);
    return DONE;
}

static int take_result(struct run *run, uint32_t i)
{
    const struct tensor *type = &run->b.buffers.at[run->b.results.at[i]].type;
    void *elements = malloc(graph_tensor_bytes(type) + 1);
    struct err e = {0};
    int status = DONE;
    if (!elements)
        status = say(FINDING, "out of memory");
    else if (run->on_cpu)
        memcpy(elements, run->results[i], graph_tensor_bytes(type));
    else if (graph_exec_read(run->x, i, elements, &e))
        status = say(FINDING, "%s: %s", run->path, e.text);
    if (!status && run->checks)
        status = compare_result(run, i, type, elements);
    if (status) {
        free(elements);
        return status;
    }
    if (run->folder)
        status = write_result(run, i, type, elements);
    else if (!run->as_json) {
        char text[128];
        npy_type_text(type, text, sizeof text);
        printf("result %" PRIu32 "  %s ", i, text);
        for (int64_t k = 0; k < type->n && k < SHOWN; k++) {
            const uint8_t *at = (const uint8_t *)elements + k * program_elem_size(type->elem);
            if (type->elem == ELEM_I1)
                printf(" %s", *at ? "true" : "false");
            else
                printf(type->elem == ELEM_F64         ? " %.17Lg"
                       : program_is_float(type->elem) ? " %.9Lg"
                                                      : " %.0Lf",
                       program_elem_get(type->elem, at));
        }
        puts(type->n > SHOWN ? " ..." : "");
    }
    free(elements);
    return status;
}

/* Prints a text as a string of JSON. */
static void print_text(const char *text)
{
    struct writer w;
    writer_init(&w, 0);
    json_write_text(&w, text, strlen(text));
    fwrite(w.data, 1, w.len, stdout);
    writer_close(&w);
}

/* ---- the run ---- */

/* Records the launches. Gives *out (driver_recording_free). */
static int record(struct run *run, void **out, struct err *e)
{
    struct err ignored;
    int rc = driver_capture_begin(run->d, e);
    if (rc)
        return rc;
    rc = graph_exec_launch(run->x, e);
    int end = driver_capture_end(run->d, out, rc ? &ignored : e);
    return rc ? rc : end;
}

/* Runs it again: records and replays the launches, or launches them, if a loop makes too many for a graph. */
static int replay(struct run *run, struct err *e)
{
    void *recording = NULL;
    int rc = 0;
    if (graph_bundle_count(&run->b, NODES_MAX + 1) <= NODES_MAX)
        rc = record(run, &recording, e);
    double began = now_ms();
    for (long i = 0; i < run->repeat && rc == 0; i++)
        rc = recording ? driver_replay(run->d, recording, e) : graph_exec_launch(run->x, e);
    if (rc == 0)
        rc = driver_wait(run->d, e);
    run->each_ms = (now_ms() - began) / (double)run->repeat;
    driver_recording_free(run->d, recording);
    return rc;
}

/* Runs the module by the interpreter, and leaves its results in run->results. */
static int interpret(struct run *run)
{
    struct err e = {0};
    for (uint32_t i = 0; i < run->b.results.n; i++) {
        uint64_t bytes = graph_tensor_bytes(&run->b.buffers.at[run->b.results.at[i]].type);
        if (!(run->results[i] = calloc((size_t)bytes + 1, 1)))
            return say(FINDING, "out of memory");
    }
    struct program *p = NULL;
    int rc = cpu_open(&run->b, &p, &e);
    if (rc == 0)
        rc = cpu_run(p, (const uint8_t *const *)run->arguments, run->results, &e);
    program_free(p);
    return rc ? say(FINDING, "%s: %s", run->path, e.text) : DONE;
}

static int take_results(struct run *run)
{
    if (run->folder && mkdir(run->folder, 0777) && errno != EEXIST)
        return say(USAGE, "%s: %s", run->folder, strerror(errno));
    int status = DONE;
    for (uint32_t i = 0; i < run->b.results.n && !status; i++)
        status = take_result(run, i);
    return status;
}

static int run_on_cpu(struct run *run)
{
    int status = DONE;
    for (uint32_t i = 0; i < run->b.n_arguments && !status; i++)
        status = write_argument(run, i);
    if (!status)
        status = interpret(run);
    return status ? status : take_results(run);
}

static int run_on_gpu(struct run *run)
{
    struct err e = {0};
    double began = now_ms();
    if (driver_open(0, &run->d, &e))
        return say(FINDING, "no GPU to run it on: %s", e.text);
    if (graph_exec_new(run->d, &run->b, true, &run->x, &e))
        return say(FINDING, "%s: %s", run->path, e.text);
    run->load_ms = now_ms() - began;
    int status = DONE;
    for (uint32_t i = 0; i < run->b.n_arguments && !status; i++)
        status = write_argument(run, i);
    began = now_ms();
    if (!status && (graph_exec_launch(run->x, &e) || driver_wait(run->d, &e)))
        status = say(FINDING, "%s: %s", run->path, e.text);
    run->first_ms = now_ms() - began;
    if (!status && run->repeat && replay(run, &e))
        status = say(FINDING, "%s: %s", run->path, e.text);
    if (!status && run->checks)
        status = interpret(run);
    if (!status)
        status = take_results(run);
    if (!status) {
        if (run->as_json) {
            printf("{\"schema\":1,\"bundle\":");
            print_text(run->path);
            printf(",\"device\":");
            print_text(driver_name(run->d));
            printf(
                ",\"arch\":\"%s\",\"load_ms\":%.3f,\"first_ms\":%.3f,\"repeat\":%ld,\"each_ms\":%."
                "6f}\n",
                driver_arch(run->d), run->load_ms, run->first_ms, run->repeat, run->each_ms);
        } else if (run->repeat) {
            printf("%s: loaded in %.1f ms, first run %.3f ms, then %ld runs of %.6f ms each\n",
                   driver_name(run->d), run->load_ms, run->first_ms, run->repeat, run->each_ms);
        }
    }
    return status;
}

static int parse(struct run *run, int argc, char **argv)
{
    static const struct option longs[] = {
        {"output", required_argument, NULL, 'o'}, {"repeat", required_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},         {"device", required_argument, NULL, 'd'},
        {"check", no_argument, NULL, 'c'},        {NULL, 0, NULL, 0}};
    char *end;
    for (int c; (c = getopt_long(argc, argv, "o:", longs, NULL)) != -1;) {
        switch (c) {
        case 'o': run->folder = optarg; break;
        case 'j': run->as_json = true; break;
        case 'c': run->checks = true; break;
        case 'd':
            run->on_cpu = strcmp(optarg, "cpu") == 0;
            if (!run->on_cpu && strcmp(optarg, "gpu") != 0)
                return say(USAGE, "--device %s is neither cpu nor gpu", optarg);
            break;
        case 'r':
            run->repeat = strtol(optarg, &end, 10);
            if (*end || run->repeat < 1 || run->repeat > REPEAT_MAX)
                return say(USAGE, "--repeat %s is not a number from 1 to %ld", optarg, REPEAT_MAX);
            break;
        default: return USAGE; /* getopt has said why */
        }
    }
    if (optind == argc)
        return say(USAGE, "exec: no bundle given (`warm exec --help`)");
    if (run->on_cpu && (run->checks || run->repeat))
        return say(USAGE, "--device cpu goes with neither --check nor --repeat");
    run->path = argv[optind];
    run->inputs = argv + optind + 1;
    run->n_inputs = (uint32_t)(argc - optind - 1);
    return DONE;
}

int main(int argc, char **argv)
{
    struct run run = {.path = NULL};
    struct err e = {0};
    int status = parse(&run, argc, argv);
    if (status)
        return status;
    int error = read_file(run.path, &run.file);
    if (error)
        return say(USAGE, "%s: %s", run.path, read_error(error));
    if (graph_bundle_read(run.file.data, run.file.len, &run.b, &e))
        status = say(USAGE, "%s: %s", run.path, e.text);
    if (!status)
        status = check_inputs(&run);
    run.arguments = calloc((size_t)run.b.n_arguments + 1, sizeof *run.arguments);
    run.results = calloc((size_t)run.b.results.n + 1, sizeof *run.results);
    if (!status && (!run.arguments || !run.results))
        status = say(FINDING, "out of memory");
    if (!status)
        status = run.on_cpu ? run_on_cpu(&run) : run_on_gpu(&run);
    for (uint32_t i = 0; run.arguments && i < run.b.n_arguments; i++)
        free(run.arguments[i]);
    for (uint32_t i = 0; run.results && i < run.b.results.n; i++)
        free(run.results[i]);
    free(run.arguments);
    free(run.results);
    graph_exec_free(run.x);
    driver_close(run.d);
    graph_bundle_close(&run.b);
    free(run.file.data);
    return status;
}
