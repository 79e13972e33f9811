/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - the settings of warmd: defaults, then the configuration file, then the environment, then the
 * command line. A later one replaces an earlier one.
 *
 * The file has `key = value` lines and `#` comments; an unknown key is an error that names the
 * line. Each key is also an option (`max_size` is `--max-size`). keygen/quantity.h has the units of sizes and
 * times. An option's size needs one. A share is a size or a percentage.
 *
 * Thread: loop thread. Memory: texts belong to the config until config_close.
 */
#ifndef WARM_DAEMON_PROCESS_CONFIG_H
#define WARM_DAEMON_PROCESS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"

/* type, name, default, meaning (shown by --help and in warmd.conf(5)). Without a meaning it is a constant that tests
 * change by an option; a file that names it gets a warning. */
#define CONFIG_LIST(X)                                                                             \
    X(TEXT, socket, "",                                                                            \
      "path of the socket; empty: $WARM_SOCKET, else $XDG_RUNTIME_DIR/warm/warmd.sock, root: "     \
      "/run/warm/warmd.sock")                                                                      \
    X(TEXT, admin, "",                                                                             \
      "path of the administrator's socket; empty: admin.sock beside a socket that others may "     \
      "use; none: no such socket")                                                                 \
    X(TEXT, store, "",                                                                             \
      "folder of the store; empty: $XDG_CACHE_HOME/warm, root: /var/cache/warm, else /var/tmp")    \
    X(SIZE, max_size, "10G",                                                                       \
      "eviction keeps the store below this; if it is not set, also below a twentieth of the file " \
      "system")                                                                                    \
    X(SIZE, min_free, "1G",                                                                        \
      "the store shrinks while its file system has less free space than this; if it is not set, "  \
      "at most a twentieth of the file system")                                                    \
    X(SHARE, quota, "50%",                                                                         \
      "the part of the store that one user may fill: a size, or a percentage of max_size; 0: no "  \
      "limit, which is the default of a daemon that serves its own user alone")                    \
    X(SIZE, max_value, "1G", "larger values of clients are not stored")                            \
    X(COUNT, jobs, "0",                                                                            \
      "compiler processes at once, and one more for a user who has none; 0: as many as CPUs, "     \
      "at most 64")                                                                                \
    X(TIME, compile_timeout, "10m", "a compile that takes longer is killed")                       \
    X(SIZE, worker_memory, "8G", "address space that a compile may use; 0: no limit")              \
    X(TIME, worker_idle, "10m", "a loaded compiler that is idle for this long is ended")           \
    X(TIME, idle_exit, "0", "the daemon ends after this without a connection; 0: never")           \
    X(COUNT, verify_hits, "1000",                                                                  \
      "one of so many hits is compiled once more while the daemon is idle, and compared; 0: none") \
    X(TIME, lease_timeout, "2m",                                                                   \
      "another client may make a key whose lease was not renewed for this long")                   \
    X(TIME, wait_timeout, "30s", "how long a RESP GET waits on a lease; 0: not at all")            \
    X(TIME, negative_ttl, "30s", "how long a compiler's error is remembered")                      \
    X(COUNT, max_connections, "4096",                                                              \
      "connections at once; further ones wait, or replace idle ones")                              \
    X(COUNT, max_connections_per_user, "1024",                                                     \
      "connections of one user at once; further ones are closed")                                  \
    X(LIST, nvrtc, "",                                                                             \
      "a libnvrtc.so or the folder that has one; may be given more than once; "                    \
      "the first is the default")                                                                  \
    X(LIST, nvrtc_from, "",                                                                        \
      "a folder below which other users' clients may name a libnvrtc.so; may be given more than "  \
      "once; none: /usr and /opt; the folders of nvrtc always count")                              \
    X(TEXT, tier, "",                                                                              \
      "URL of a store beyond this machine: file:///FOLDER, redis://HOST[:PORT], "                  \
      "s3://BUCKET[/PREFIX] or https://HOST[/PATH]")                                               \
    X(TEXT, tier_key, "",                                                                          \
      "file of the secret key that signs entries for the tier; empty: none are sent")              \
    X(LIST, tier_trusted, "",                                                                      \
      "NAME:BASE64 of a public key whose entries in the tier count, beside that of tier_key; may " \
      "be given more than once")                                                                   \
    X(TEXT, tier_mode, "read-write", "read-write, read-only or write-only")                        \
    X(TEXT, tier_share, "made",                                                                    \
      "entries of other users that go to the tier: made (those that the daemon compiled), group "  \
      "(also the puts of trust_group), user (also each user's puts; users must be the same on "    \
      "all "                                                                                       \
      "machines)")                                                                                 \
    X(LIST, tier_revoked, "",                                                                      \
      "NAME:BASE64 of a public key that is no longer trusted; its entries here are removed, too; " \
      "may be given more than once")                                                               \
    X(TIME, tier_expire, "30d", "a tier in Redis forgets an object after this; 0: never")          \
    X(TIME, tier_lease, "10s", "")                                                                 \
    X(TIME, tier_hedge, "5s", "")                                                                  \
    X(TIME, tier_breaker, "45s", "")                                                               \
    X(COUNT, tier_queue, "100000", "")                                                             \
    X(TIME, tier_queue_age, "1d", "")                                                              \
    X(COUNT, tier_uploads, "4", "")                                                                \
    X(SIZE, tier_bandwidth, "0", "bytes a second that are sent to the tier; 0: no limit")          \
    X(TIME, tier_min_cost, "20ms", "entries that took less time to make are not sent to the tier") \
    X(SIZE, tier_max_value, "512M", "larger values are not sent to the tier, nor taken from it")   \
    X(TEXT, tier_credentials, "", "file of the tier's user, password or keys; empty: none")        \
    X(TEXT, tier_ca, "", "file of certificates that the tier's must lead to; empty: the system's") \
    X(TEXT, tier_socket, "",                                                                       \
      "socket of a warm-tier that is a service of its own; empty: the daemon starts warm-tier")    \
    X(TEXT, trust_group, "", "members of this group share what their clients put")                 \
    X(TEXT, metrics_listen, "",                                                                    \
      "a loopback port for GET /metrics: PORT, 127.0.0.1:PORT or [::1]:PORT; empty: none")         \
    X(TEXT, log_level, "info", "error, warning, info or debug")                                    \
    X(TEXT, log_format, "text", "how lines of the log are written: text, logfmt or json")          \
    X(TEXT, worker, "", "path of warm-nvrtc; empty: beside warmd")

enum config_key {
#define X(type, name, standard, help) CONFIG_KEY_##name,
    CONFIG_LIST(X)
#undef X
        CONFIG_KEYS
};

/* The origin of a value, which INFO shows. */
enum config_origin {
    CONFIG_DEFAULT,
    CONFIG_FOUND, /* by config_resolve: from the machine or the user */
    CONFIG_FILE,
    CONFIG_ENVIRONMENT,
    CONFIG_OPTION,
};

struct config {
    /* the origin that config_set notes: CONFIG_OPTION, unless a file is being read */
    enum config_origin reading;
    enum config_origin origin[CONFIG_KEYS]; /* of each value */
    char *socket, *admin;
    char *store;
    uint64_t max_size, min_free, quota, max_value; /* bytes */
    uint64_t quota_percent;                        /* of max_size, if quota was given so; else 0 */
    uint64_t jobs;
    uint64_t compile_timeout_ms;
    uint64_t verify_hits;   /* one of so many; 0: none */
    uint64_t worker_memory; /* bytes */
    uint64_t worker_idle_ms, idle_exit_ms, lease_timeout_ms, wait_timeout_ms, negative_ttl_ms;
    uint64_t max_connections, max_connections_per_user;
    char **nvrtc;
    size_t n_nvrtc;
    char **nvrtc_from;
    size_t n_nvrtc_from;
    char *tier, *tier_key;
    char **tier_trusted;
    size_t n_tier_trusted;
    char *tier_mode, *tier_share;
    char **tier_revoked;
    size_t n_tier_revoked;
    uint64_t tier_expire_ms, tier_lease_ms, tier_hedge_ms, tier_breaker_ms;
    uint64_t tier_queue, tier_queue_age_ms, tier_uploads, tier_bandwidth;
    uint64_t tier_min_cost_ms;
    uint64_t tier_max_value; /* bytes */
    char *tier_credentials, *tier_ca, *tier_socket;
    char *trust_group;
    char *metrics_listen;
    char *log_level, *log_format;
    char *worker;
    char *file;      /* the file that was read; NULL: none */
    char **warnings; /* about lines that mean nothing, or that a later version will refuse */
    size_t n_warnings;
};

/* Fills *out from the defaults. NOMEM. */
int config_init(struct config *out, struct err *e);
/* Reads a file over what *c holds. INVALID with the file's line; IO; DENIED: another user could change it. */
int config_read_file(struct config *c, const char *path, struct err *e);
/* Reads WARM_STORE, WARM_MAX_SIZE, WARM_NVRTC and WARM_JOBS, for daemons that `warm run` starts and
 * for containers. INVALID names the variable. */
int config_read_environment(struct config *c, struct err *e);
/* Sets one key from text; `name` may have - for _. A list's first value from a new origin replaces
 * its values. INVALID says what is wrong. */
int config_set(struct config *c, const char *name, const char *value, struct err *e);
/* True if there is such a key; `name` may have - for _. */
bool config_has(const char *name);
/* Returns the setting that a wrong name means; NULL if none is near. */
const char *config_meant(const char *name);
/* Fills in the values that depend on the machine and the user: socket, store, jobs and worker. If
 * no libnvrtc is named, looks for them (in the folders of a CUDA toolkit, in the loader's own
 * path). DENIED: another user could change the store, or the worker that a setting names. */
int config_resolve(struct config *c, struct err *e);
/* Checks that only root and this user can change a store, without reading it. DENIED, IO. */
int config_check_store(const char *store, struct err *e);
/* Frees the texts. */
void config_close(struct config *c);

/* Writes the options with defaults and meaning, one to three lines each, for --help. */
void config_help(struct writer *out);
/* Writes {"socket": {"value": "…", "origin": "default"}, …}. */
void config_write_json(const struct config *c, struct writer *out);

#endif
