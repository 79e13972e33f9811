/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warm.h - libwarm, the client library of the warm compilation cache.
 *
 * A program connects and asks for an artifact by key. On a miss it compiles through the daemon
 * (warm_compile), or makes the artifact itself under a lease: warm_get with WARM_WANT_LEASE, then
 * warm_put. Equal requests of many processes at once lead to one compile.
 *
 *     struct warm *w;
 *     if (warm_open(&w, NULL) == 0) {
 *         struct warm_value v;
 *         if (warm_get(w, "my-artifact", 11, 0, &v) == 0) {
 *             use(v.data, v.len);
 *             warm_value_free(&v);
 *         }
 *         warm_close(w);
 *     }
 *
 * Fail open: every call returns within its deadline. After a negative code (enum warm_error) the
 * program goes on without the cache. After a failure of the connection, calls fail at once for a
 * short while, then one tries again.
 *
 * Thread: one at a time for each struct warm. A child of fork must open its own: calls on the
 * parent's return WARM_ECLOSED there and touch nothing. Memory: values are mapped or allocated, and
 * the caller owns them until warm_value_free.
 */
#ifndef WARM_H
#define WARM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Codes that calls return on failure. Numbers are never reused. warm_error_name returns the
 * name. */
#ifndef WARM_ERROR_CODES
#define WARM_ERROR_CODES
enum warm_error {
    WARM_ENOMEM = -1,         /* out of memory */
    WARM_EINVALID = -2,       /* invalid argument */
    WARM_EMALFORMED = -3,     /* malformed input */
    WARM_ETRUNCATED = -4,     /* input ends too early */
    WARM_ETOO_BIG = -5,       /* larger than the limit */
    WARM_EUNSUPPORTED = -6,   /* not supported */
    WARM_EVERSION = -7,       /* version not supported */
    WARM_ENOT_FOUND = -8,     /* not found */
    WARM_EDENIED = -9,        /* not allowed */
    WARM_ECORRUPT = -10,      /* stored bytes are damaged */
    WARM_EFULL = -11,         /* no space left */
    WARM_EIO = -12,           /* input/output error */
    WARM_EBUSY = -13,         /* in use by another process */
    WARM_ETIMEOUT = -14,      /* deadline passed */
    WARM_ECANCELLED = -15,    /* cancelled */
    WARM_ECLOSED = -16,       /* connection closed */
    WARM_ENO_DAEMON = -17,    /* no daemon answers */
    WARM_ECRASHED = -18,      /* the compiler process died */
    WARM_EREFUSED = -19,      /* refused: the result could not be kept soundly */
    WARM_ENO_TOOLCHAIN = -20, /* no such compiler */
    WARM_ELEASE_LOST = -21,   /* the lease is no longer held */
    WARM_ESHUTDOWN = -22,     /* the daemon is stopping */
};
#endif

struct warm;

struct warm_options {
    const char *socket;          /* NULL: $WARM_SOCKET, else the default of this user */
    unsigned connect_timeout_ms; /* also for the hand-shake; 0: $WARM_TIMEOUT_MS, else 50. A daemon
                                    that is silent for $WARM_TIMEOUT_MS, else 1000, hangs: then the
                                    process leaves it alone for a hundred times as long */
    unsigned request_timeout_ms; /* of requests other than compiles; 0: 5000 */
};

/* Connects. Gives *out. The hand-shake goes with the first request, so that it costs no round trip:
 * that request may return VERSION. Errors: NO_DAEMON, TIMEOUT, DENIED, INVALID (the socket's path),
 * NOMEM, IO. Returns NO_DAEMON at once if WARM_DISABLE=1 is set. */
int warm_open(struct warm **out, const struct warm_options *options);
/* Closes the connection and frees it; NULL is fine. */
void warm_close(struct warm *w);

/* Returns the last failure of this connection in one line, for a person. Valid until the next
 * call. */
const char *warm_message(const struct warm *w);
/* Returns the name of a code, such as "NOT_FOUND". */
const char *warm_error_name(int code);

/* Writes the path that warm_open would use: $WARM_SOCKET; else the user's own daemon's, unless only
 * the system's daemon (/run/warm/warmd.sock) listens; then that. TOO_BIG if it does not fit. */
int warm_default_socket(char *out, size_t cap);

struct warm_value {
    const void *data; /* the verified bytes */
    size_t len;
    uint32_t cost_ms;  /* time that it took to make */
    char key[33];      /* its key in the store, in hex */
    int outcome;       /* WARM_HIT, WARM_MISS (made for you), WARM_COALESCED (made for another) */
    uint64_t token;    /* of the lease, if warm_get returned WARM_LEASE */
    uint32_t lease_ms; /* the time for which the lease is yours alone */
    void *internal[2];
};
enum { WARM_HIT = 0, WARM_MISS = 1, WARM_COALESCED = 2 };
/* Frees a value, and empties it. */
void warm_value_free(struct warm_value *v);

enum warm_get_flags {
    WARM_WANT_LEASE = 1, /* on a miss, get a lease to make it, or wait for its holder */
    WARM_BY_KEY = 2,     /* `key` is 32 hex digits: an address key rather than a name */
};
#define WARM_LEASE 1 /* warm_get: a miss; make it, then warm_put with out->token */

/*
 * Asks for a name of 1 to 512 bytes. Returns 0 with the value; WARM_LEASE with out->token; or
 * NOT_FOUND, or another error. With WARM_WANT_LEASE waits, up to `request_timeout_ms`, for the
 * process that makes it.
 */
int warm_get(struct warm *w, const char *key, size_t key_len, unsigned flags,
             struct warm_value *out);

#define WARM_MANY_MAX 4096u
struct warm_name {
    const char *text;
    size_t len;
};
/*
 * Asks for up to WARM_MANY_MAX names in one round trip. Returns 0 if all were answered:
 * out_codes[i] is 0, and out[i] the value of names[i] (warm_value_free), or out_codes[i] is
 * NOT_FOUND or another error. `flags`: WARM_BY_KEY or 0; there are no leases. On an error there are
 * no values to free: INVALID (a name), TOO_BIG (too many, or their names together), TIMEOUT, …
 */
int warm_get_many(struct warm *w, const struct warm_name *names, size_t n, unsigned flags,
                  struct warm_value *out, int *out_codes);

struct warm_put_options {
    uint64_t token;   /* 0: without a lease */
    unsigned flags;   /* WARM_KEEP_EXISTING */
    const char *kind; /* "backward", "executable", …; NULL: what the name says, or "other" */
    uint32_t
        cost_ms; /* time that it took to make, counted up to 10 minutes: expensive entries are evicted last */
    uint64_t ttl_ms;   /* 0: no expiry */
    const char *group; /* entries of one group leave the cache together; NULL: none */
    const char *hardware, *compiler, *label; /* for people and filters; NULL: none */
};
#define WARM_KEEP_EXISTING 1u /* an existing entry of that name stays, and the call succeeds */
/* Stores a value under a name of 1 to 512 bytes; only the daemon makes keys in hex. Returns when it
 * is committed: for a while, a power failure may still destroy it. `options` may be NULL. Errors:
 * LEASE_LOST (options->token), INVALID, TOO_BIG, FULL, DENIED (also if WARM_READONLY=1 is set),
 * … */
int warm_put(struct warm *w, const char *key, size_t key_len, const void *data, size_t len,
             const struct warm_put_options *options);
/* Gives a lease back: the next waiter gets it. */
int warm_release(struct warm *w, uint64_t token);
/* Tells the daemon that making it goes on: others wait on. After the first call, they wait 20 seconds for the next
 * one, or the lease's time if that is shorter. Waits for nothing and cannot fail. */
void warm_renew(struct warm *w, uint64_t token);

#define WARM_IDENTITY_TEXT 97 /* bytes, NUL included */
/*
 * Identifies a file by its content: 32 hex digits of XXH3-128, then 64 of SHA-256, for keys that
 * cover a compiler or another large file. The daemon remembers the identity under the file's
 * device, inode, size and times, so that only the first process reads the file. If `w` is NULL or
 * fails, the file is read each time. Follows symbolic links. Errors: NOT_FOUND, DENIED, INVALID (no
 * regular file), BUSY (it is being written), IO, NOMEM.
 */
int warm_file_identity(struct warm *w, const char *path, char out[WARM_IDENTITY_TEXT]);

/*
 * Tells the daemon, for `warm why`, why an artifact was not taken from the cache. `reason` is
 * "uncacheable", "differs", "disabled" or "timeout"; `label` is a name for people, such as a file's, or the
 * name of the entry that was asked for in vain; `text` is the option, token or variable. Both may
 * be NULL. Waits for nothing and cannot fail.
 */
void warm_note(struct warm *w, const char *reason, const char *label, const char *text);

struct warm_header {
    const char *name; /* as #include names it */
    const void *bytes;
    size_t len;
};
struct warm_job {
    const char *name;   /* as for nvrtcCreateProgram */
    const void *source; /* CUDA C++ */
    size_t source_len;
    const char *const *options;
    size_t n_options;
    const struct warm_header *headers;
    size_t n_headers;
    const char *const *expressions; /* name expressions */
    size_t n_expressions;
    const char *cwd;      /* NULL: the process's own */
    const char *compiler; /* "" or NULL: the daemon's default; "12.9"; digits of a compiler's key;
                             or the absolute path of a libnvrtc.so. The daemon loads it if only root
                             or the daemon's user can change it; else it uses its own copy of the
                             same content, or answers NO_TOOLCHAIN */
    unsigned timeout_ms;  /* 0: the daemon's default */
    unsigned flags;       /* WARM_RECACHE, WARM_NO_STORE, WARM_ONLY_IF_CACHED */
};
enum warm_job_flags { WARM_RECACHE = 1, WARM_NO_STORE = 2, WARM_ONLY_IF_CACHED = 4 };

struct warm_part {
    const void *data; /* NULL: there is none */
    size_t len;
};
struct warm_result {
    struct warm_value value; /* owns everything below */
    int status;              /* the compiler's return code: 0, or an nvrtcResult */
    int refused;             /* it asked for files outside of its folders: they read as absent */
    struct warm_part log, cubin, ptx, ltoir, optixir;
    size_t n_lowered;
    struct warm_part (*lowered)[2]; /* expression, lowered name */
    struct warm_part compiler;      /* the compiler, for people: "NVRTC 13.5 " and its key in hex */
};
/*
 * Gets the result of a compile job, from the cache or compiled now. Returns 0 if the compiler
 * answered, even with an error: look at `status` and `log`. This process opens the headers for the
 * compiler, with its own rights. It opens files beneath the job's -I folders, its working folder
 * and the folder of `name` only. Other files read as absent; if the compile then fails,
 * warm_message names the first one. A connection remembers headers by device, inode, size and
 * times, and reads them again when these change. Errors: NO_DAEMON, TIMEOUT, REFUSED (this job
 * could not be kept soundly), NO_TOOLCHAIN, CRASHED, NOT_FOUND (WARM_ONLY_IF_CACHED), …
 */
int warm_compile(struct warm *w, const struct warm_job *job, struct warm_result *out);
/* Frees a result, and empties it. */
void warm_result_free(struct warm_result *r);

enum warm_graph_flags { WARM_GRAPH_VJP = 1 }; /* forward and backward */
struct warm_graph {
    const void *data; /* StableHLO, text or bytecode, with one public function */
    size_t len;
    const char *target; /* "sm_90" */
    unsigned flags;
    const uint32_t *arguments;  /* with VJP: positions of those that have a gradient */
    size_t n_arguments;         /* 0: all of f32 */
    const char *const *options; /* for NVRTC; the target is not among them */
    size_t n_options;
    const char *compiler; /* these three as in struct warm_job, for each kernel */
    unsigned timeout_ms;
    unsigned job_flags;
    void (*progress)(void *context, unsigned done, unsigned kernels); /* NULL: none */
    void *context;
    const char *
        optimizer; /* with VJP: a training step, "adam,lr=0.03" (kernels/vjp/optimizer.h); NULL: none */
};
struct warm_graph_result {
    void *data; /* the bundle (kernels/BUNDLE.md) */
    size_t len;
    unsigned n_kernels, n_hits; /* hits: kernels that the cache had */
    unsigned n_launches, n_arguments, n_results;
    uint64_t arena;   /* bytes of device memory beside arguments, results and constants */
    uint64_t cost_ms; /* time that it took to make the kernels, whenever that was */
};
/*
 * Compiles a graph to a bundle of cubins, without the framework that made it. Each kernel is a compile
 * of its own, so any two graphs share equal ones. With VJP the function takes a cotangent for each
 * f32 result behind its arguments, and returns gradients behind its results. Gives *out
 * (warm_graph_result_free). Errors: UNSUPPORTED for an operation, a type or a loop that it has no
 * code for; MALFORMED, INVALID, TOO_BIG; those of warm_compile. After any of them the framework's
 * own compiler goes on; warm_message says what is wrong, and in which line.
 */
int warm_graph_compile(struct warm *w, const struct warm_graph *graph,
                       struct warm_graph_result *out);
/* Frees a bundle, and empties it. */
void warm_graph_result_free(struct warm_graph_result *r);

/*
 * A bundle in this process, on a GPU or on the CPU. Needs no connection.
 *
 *     warm_graph_open ──▶ warm_graph_run, warm_graph_run, … on the caller's memory and stream ──▶ warm_graph_close
 *
 * On a GPU addresses are device addresses, and `stream` is a CUstream (NULL: the default stream) of the GPU's primary
 * context, as PyTorch, CuPy and JAX use it. libcuda.so.1 is loaded by the first warm_graph_open. Each call leaves the
 * calling thread's CUDA context as it was. On the CPU addresses are the host's, streams are ignored, and an interpreter
 * runs the graph on doubles: slow, to check results and for machines without a GPU.
 *
 * Thread: one at a time for each struct warm_exec; any number of them. The runs of one share memory: they are on one
 * stream, or the caller orders them. Memory: borrows the bundle until warm_graph_close.
 */
struct warm_exec;
#define WARM_ON_CPU (-1)
#define WARM_WHY_TEXT 256 /* bytes, NUL included */

struct warm_tensor {
    const char *element; /* "f32", as StableHLO has it */
    unsigned rank;
    const int64_t *dims; /* outermost first; row-major, without gaps. i1 is a byte, 0 or 1 */
    size_t bytes;
};

/* Loads a bundle for the GPU of this number (CUDA's ordinal), or WARM_ON_CPU. Gives *out. If it fails, writes why in
 * one line; out_why may be NULL. Errors: UNSUPPORTED (no driver, no GPU, a bundle for another GPU, or for WARM_ON_CPU
 * one without its module), INVALID (the number), NOMEM of host or GPU, IO (CUDA); MALFORMED, TRUNCATED, CORRUPT,
 * VERSION for the bundle. */
int warm_graph_open(const void *bundle, size_t len, int gpu, struct warm_exec **out,
                    char out_why[WARM_WHY_TEXT]);
/* Waits for the GPU, and frees it; NULL is fine. CUDA graphs that have captured its runs are of no use any more. */
void warm_graph_close(struct warm_exec *x);

/* Returns the number of arguments, and their types, which live until warm_graph_close. */
unsigned warm_graph_arguments(const struct warm_exec *x, const struct warm_tensor **out);
/* Does the same for results. */
unsigned warm_graph_results(const struct warm_exec *x, const struct warm_tensor **out);

/*
 * Puts a run on the stream, and returns: arguments are read and results written where they are, by addresses that are
 * multiples of their elements' size. A result may overlap no argument and no other result. A stream may capture the
 * run. There are two exceptions. A result that is an argument, a constant or another result is a copy, on the stream.
 * A graph with a loop whose trips are known at run time alone waits for the stream before each trip; so it cannot
 * be captured. Errors: INVALID (an address), IO (CUDA; of a kernel's fault a later call tells), TIMEOUT and TOO_BIG of
 * the interpreter, NOMEM.
 */
int warm_graph_run(struct warm_exec *x, const void *const *arguments, void *const *results,
                   void *stream);
/* Returns the last failure of these calls in one line. Valid until the next call. */
const char *warm_graph_message(const struct warm_exec *x);

/* Allocates bytes (any number) of the GPU's memory, for callers without a library that has some. Gives *out
 * (warm_graph_memory_free, before warm_graph_close). May wait for the GPU. Errors: NOMEM, IO. */
int warm_graph_memory(struct warm_exec *x, size_t bytes, void **out);
/* Frees them; NULL is fine. May wait for the GPU. */
void warm_graph_memory_free(struct warm_exec *x, void *address);
/* Copies on the stream, between any two addresses of GPU or host. From or to the host it may wait. Errors: IO. */
int warm_graph_copy(struct warm_exec *x, void *to, const void *from, size_t bytes, void *stream);
/* Waits for a stream. Errors: IO; also for a fault of a kernel on it. */
int warm_graph_wait(struct warm_exec *x, void *stream);

/*
 * A bundle as a custom call in executables of XLA, as those of JAX. The call's target is one of the two handlers, in the
 * typed FFI: warm_graph_xla_cpu for the platform "cpu", warm_graph_xla_cuda for "CUDA". Its attribute `graph` is the name
 * that warm_graph_xla_open writes; its operands and results are those of the graph, row-major. No GPU has run it yet.
 *
 * Thread: any. Memory: the graph is open until the process ends, because nobody knows when the last executable is gone.
 * A forked child opens it again.
 */
#define WARM_XLA_NAME 80 /* bytes, NUL included */
/* Opens a bundle, of which it keeps a copy. Writes its name, which depends on the bundle's bytes and on `gpu` alone. A
 * bundle that is open already costs nothing. Errors: those of warm_graph_open. */
int warm_graph_xla_open(const void *bundle, size_t len, int gpu, char out_name[WARM_XLA_NAME],
                        char out_why[WARM_WHY_TEXT]);
/* Runs a call on the CPU, by the interpreter. Takes an XLA_FFI_CallFrame, and returns NULL or an XLA_FFI_Error. */
void *warm_graph_xla_cpu(void *call_frame);
/* Does the same on the call's stream of a GPU. */
void *warm_graph_xla_cuda(void *call_frame);

#define WARM_EXACT 2 /* warm_graph_key: the key is that of the bytes as they are */
/*
 * Makes the canonical key of a graph or a source, in hex: the same for every spelling of one
 * program (`warm hash` prints it, keygen/KEYS.md has the rules). If many processes compile the
 * program, each for itself, numbers of channels count too: the caller adds them. `kind` is "mlir",
 * "mlirbc", "hlo", "ptx", "cuda", "raw", or NULL to find it from the content. Needs no
 * connection. Returns 0, or WARM_EXACT if the form has parts that only exact bytes can tell apart.
 * Errors: MALFORMED, TRUNCATED; REFUSED (elided text, process addresses: must not be kept); INVALID
 * (`kind`); NOMEM.
 */
int warm_graph_key(const char *kind, const void *data, size_t len, char out_key[33]);
/*
 * Writes the canonical form that warm_graph_key digests, as text for people: one operation or
 * statement a line (`warm hash --explain` prints it). Returns its length, or an error as there;
 * writes nothing if `cap` is less.
 */
long warm_graph_form(const char *kind, const void *data, size_t len, char *out, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
