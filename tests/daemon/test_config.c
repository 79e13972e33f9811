/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c - settings: defaults, the file, options, and errors in them. */
#include <criterion/criterion.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/process/config.h"
#include "tests/support/support.h"

static struct config config;
static struct err e;

static void setup(void) { cr_assert_eq(config_init(&config, &e), 0); }
static void teardown(void) { config_close(&config); }
TestSuite(config, .init = setup, .fini = teardown);

/* Reads a file of this text. */
static int read_text(const char *text)
{
    char *dir = temp_dir_new(), *path = path_join(dir, "warmd.conf");
    file_write(path, text, strlen(text));
    int code = config_read_file(&config, path, &e);
    free(path);
    temp_dir_free(dir);
    return code;
}

Test(config, defaults_are_those_of_the_list)
{
    cr_assert_eq(config.max_size, 10ull << 30);
    cr_assert_eq(config.compile_timeout_ms, 600000);
    cr_assert_eq(config.wait_timeout_ms, 30000);
    cr_assert_eq(config.max_connections, 4096);
    cr_assert_str_eq(config.log_level, "info");
    cr_assert_eq(config.n_nvrtc, 0);
    cr_assert_eq(config.origin[CONFIG_KEY_max_size], CONFIG_DEFAULT);
}

Test(config, sizes_times_and_counts_have_units)
{
    cr_assert_eq(config_set(&config, "max-size", "3M", &e), 0);
    cr_assert_eq(config.max_size, 3u << 20);
    cr_assert_eq(config_set(&config, "max_size", "1t", &e), 0);
    cr_assert_eq(config.max_size, 1ull << 40);
    cr_assert_eq(config_set(&config, "lease-timeout", "1500ms", &e), 0);
    cr_assert_eq(config.lease_timeout_ms, 1500);
    cr_assert_eq(config_set(&config, "lease-timeout", "2h", &e), 0);
    cr_assert_eq(config.lease_timeout_ms, 7200000);
    cr_assert_eq(config_set(&config, "lease-timeout", "5", &e), 0);
    cr_assert_eq(config.lease_timeout_ms, 5000, "a bare time is in seconds");
    cr_assert_eq(config.origin[CONFIG_KEY_lease_timeout], CONFIG_OPTION);
}

Test(config, environment_is_read_over_the_file)
{
    cr_assert_eq(read_text("max_size = 3M\njobs = 2\n"), 0);
    setenv("WARM_MAX_SIZE", "5M", 1);
    cr_assert_eq(config_read_environment(&config, &e), 0);
    cr_assert_eq(config.max_size, 5u << 20);
    cr_assert_eq(config.jobs, 2);
    cr_assert_eq(config.origin[CONFIG_KEY_max_size], CONFIG_ENVIRONMENT);
    setenv("WARM_JOBS", "many", 1);
    cr_assert_eq(config_read_environment(&config, &e), WARM_EINVALID);
    cr_assert(strncmp(e.text, "WARM_JOBS: ", 11) == 0, "%s", e.text);
}

Test(config, wrong_values_are_refused_and_named)
{
    static const char *const wrong[][2] = {
        {"max_size", "x"},     {"max_size", ""},          {"max_size", "-1"},
        {"max_size", "1Q"},    {"max_size", "99999999T"}, {"max_size", "99999999999999999999"},
        {"jobs", "2M"},        {"lease_timeout", "1y"},   {"log_level", "loud"},
        {"log_format", "xml"}, {"no_such", "1"}};
    uint64_t before = config.max_size;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e.text[0] = '\0';
        cr_assert_eq(config_set(&config, wrong[i][0], wrong[i][1], &e), WARM_EINVALID);
        cr_assert_not_null(strstr(e.text, wrong[i][0]), "%s", e.text);
    }
    cr_assert_eq(config.max_size, before);
}

Test(config, a_file_has_comments_blanks_and_lists)
{
    cr_assert_eq(read_text("# comment\n\n  max_size =  2G \nnvrtc = /a\nnvrtc=/b\n"
                           "log_level = debug"),
                 0, "%s", e.text);
    cr_assert_eq(config.max_size, 2ull << 30);
    cr_assert_eq(config.n_nvrtc, 2);
    cr_assert_str_eq(config.nvrtc[1], "/b");
    cr_assert_str_eq(config.log_level, "debug");
    cr_assert_eq(config.origin[CONFIG_KEY_nvrtc], CONFIG_FILE);
}

Test(config, what_is_a_constant_now_is_a_warning_in_an_old_file)
{
    cr_assert_eq(read_text("jobs = 3\ntier_lease = 1s\ntier-uploads = many\n"), 0, "%s", e.text);
    cr_expect_eq(config.tier_lease_ms, 10000);
    cr_expect_eq(config.tier_uploads, 4);
    cr_assert_eq(config.n_warnings, 2);
    cr_expect_not_null(strstr(config.warnings[0], ":2: tier_lease is 10s and no setting any more"),
                       "%s", config.warnings[0]);
    cr_expect_not_null(strstr(config.warnings[1], ":3: tier_uploads"), "%s", config.warnings[1]);
}

Test(config, an_error_names_the_line)
{
    cr_assert_eq(read_text("max_size = 1G\n\nsockets = x\n"), WARM_EINVALID);
    cr_assert_eq(e.line, 3);
    cr_assert_not_null(strstr(e.text, ":3: "), "%s", e.text);
    cr_assert_eq(read_text("just words\n"), WARM_EINVALID);
    cr_assert_eq(config_read_file(&config, "/nonexistent/file", &e), WARM_EIO);
}

Test(config, an_option_replaces_a_list_of_the_file)
{
    cr_assert_eq(read_text("nvrtc = /a\nnvrtc = /b\n"), 0);
    cr_assert_eq(config_set(&config, "nvrtc", "/c", &e), 0);
    cr_assert_eq(config_set(&config, "nvrtc", "/d", &e), 0);
    cr_assert_eq(config.n_nvrtc, 2);
    cr_assert_str_eq(config.nvrtc[0], "/c");
}

Test(config, what_is_not_set_comes_from_the_machine_and_the_user)
{
    unsetenv("WARM_SOCKET");
    setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
    char *cache = temp_dir_new(), *store = path_join(cache, "warm");
    setenv("XDG_CACHE_HOME", cache, 1);
    cr_assert_eq(config_resolve(&config, &e), 0);
    bool root = geteuid() == 0;
    cr_assert_str_eq(config.socket, root ? "/run/warm/warmd.sock" : "/run/user/1/warm/warmd.sock");
    cr_assert_str_eq(config.store, root ? "/var/cache/warm" : store);
    cr_assert_eq(config.origin[CONFIG_KEY_jobs], CONFIG_FOUND);
    free(store);
    temp_dir_free(cache);
    cpu_set_t cpus;
    cr_assert_eq(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    cr_expect_eq(config.jobs, CPU_COUNT(&cpus) < 64 ? CPU_COUNT(&cpus) : 64);
}

Test(config, the_socket_is_where_clients_look_unless_it_is_set)
{
    setenv("WARM_SOCKET", "/s/warmd.sock", 1);
    cr_assert_eq(config_resolve(&config, &e), 0);
    cr_expect_str_eq(config.socket, "/s/warmd.sock");
    cr_expect_eq(config.origin[CONFIG_KEY_socket], CONFIG_FOUND);
    cr_assert_eq(read_text("socket = /file.sock\n"), 0);
    cr_assert_eq(config_read_environment(&config, &e), 0);
    cr_assert_eq(config_resolve(&config, &e), 0);
    cr_expect_str_eq(config.socket, "/file.sock");
}

Test(config, nvrtc_is_found_newest_first_and_once)
{
    char *dir = temp_dir_new(), *path;
    static const char *const names[] = {"libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.9"};
    for (size_t i = 0; i < 3; i++) {
        path = path_join(dir, names[i]);
        file_write(path, names[i], strlen(names[i]));
        free(path);
    }
    char twice[1024];
    snprintf(twice, sizeof twice, "%s:%s", dir, dir);
    setenv("LD_LIBRARY_PATH", twice, 1);
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
    cr_assert_eq(config_resolve(&config, &e), 0);
    cr_assert_geq(config.n_nvrtc, 1);
    path = path_join(dir, "libnvrtc.so.13");
    cr_assert_str_eq(config.nvrtc[0], path);
    for (size_t i = 1; i < config.n_nvrtc; i++)
        cr_assert_str_neq(config.nvrtc[i], path);
    free(path);
    temp_dir_free(dir);
}

/* A package of CUDA may bring its folder without the link lib64. On Arm servers that folder has another name. */
Test(config, nvrtc_is_found_in_the_folder_of_the_target)
{
    char *dir = temp_dir_new(), *out;
    cr_assert_eq(run_command(&out,
                             "cd %s && mkdir -p targets/sbsa-linux/lib targets/x86_64-linux/lib "
                             "&& touch targets/sbsa-linux/lib/libnvrtc.so.13 "
                             "targets/x86_64-linux/lib/libnvrtc.so.13",
                             dir),
                 0, "%s", out);
    free(out);
    setenv("CUDA_HOME", dir, 1);
    unsetenv("CUDA_PATH");
    unsetenv("LD_LIBRARY_PATH");
    cr_assert_eq(config_resolve(&config, &e), 0);
    struct utsname machine;
    uname(&machine);
    bool is_arm = strcmp(machine.machine, "aarch64") == 0;
    char *path = path_join(dir, is_arm ? "targets/sbsa-linux/lib/libnvrtc.so.13"
                                       : "targets/x86_64-linux/lib/libnvrtc.so.13");
    cr_assert_geq(config.n_nvrtc, 1);
    cr_assert_str_eq(config.nvrtc[0], path);
    for (size_t i = 1; i < config.n_nvrtc; i++)
        cr_assert_neq(strncmp(config.nvrtc[i], dir, strlen(dir)), 0, "%s", config.nvrtc[i]);
    free(path);
    temp_dir_free(dir);
}

Test(config, nvrtc_of_the_build_tree_is_found_if_there_is_no_other)
{
    char self[PATH_MAX], lib[PATH_MAX + 64];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert_gt(len, 0);
    self[len] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(lib, sizeof lib, "%s/../toolchain/13.5.37/lib/libnvrtc.so.13", self);
    unsetenv("LD_LIBRARY_PATH");
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
    cr_assert_eq(config_resolve(&config, &e), 0);
    if (access(lib, R_OK) < 0 || access("/usr/local/cuda/lib64", R_OK) == 0)
        cr_skip_test("no toolchain beside the tests, or CUDA is installed");
    cr_assert_geq(config.n_nvrtc, 1);
    cr_assert_not_null(strstr(config.nvrtc[0], "/toolchain/13.5.37/lib/libnvrtc.so."), "%s",
                       config.nvrtc[0]);
}

Test(config, json_tells_value_and_origin)
{
    struct writer w;
    writer_init(&w, 0);
    config_set(&config, "trust_group", "a\"b", &e);
    config_write_json(&config, &w);
    writer_u8(&w, '\0');
    const char *json = (const char *)w.data;
    cr_assert_not_null(
        strstr(json, "\"trust_group\": {\"value\": \"a\\\"b\", \"origin\": \"option\"}"), "%s",
        json);
    cr_assert_not_null(strstr(json, "\"wait_timeout_ms\": {\"value\": 30000, "));
    writer_close(&w);
}

Test(config, quota_is_a_size_or_a_part_of_max_size)
{
    struct config c;
    cr_assert_eq(config_init(&c, &e), 0);
    cr_assert_eq(config_set(&c, "max_size", "1000B", &e), 0);
    cr_assert_eq(config_set(&c, "quota", "30%", &e), 0);
    cr_assert_eq(config_resolve(&c, &e), 0, "%s", e.text);
    cr_assert_eq(c.quota, 300);
    cr_assert_eq(config_set(&c, "quota", "2K", &e), 0);
    cr_assert_eq(config_resolve(&c, &e), 0, "%s", e.text);
    cr_assert_eq(c.quota, 2048);
    cr_assert_eq(config_set(&c, "quota", "101%", &e), WARM_EINVALID);
    cr_assert_eq(config_set(&c, "quota", "half", &e), WARM_EINVALID);
    config_close(&c);
}
