/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_command.c - `warm tier probe` and doctor's line: a folder, a strict S3, and what a person mistypes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/engine.h"
#include "tests/support/warmd.h"

/* Runs `warm ARGUMENTS` without a home; expects a status, and a text in its output. */
static void expect(int status, const char *arguments, const char *text)
{
    char *out, *program = bin_path("warm");
    int got = run_command(&out, "env -i PATH=$PATH AWS_EC2_METADATA_DISABLED=true %s %s 2>&1",
                          program, arguments);
    cr_assert_eq(got, status, "warm %s: exit status %d: %s", arguments, got, out);
    cr_assert(strstr(out, text), "warm %s: no `%s` in: %s", arguments, text, out);
    free(out);
    free(program);
}

Test(tier_command, a_folder_and_what_is_none)
{
    char *dir = temp_dir_new(), line[400];
    snprintf(line, sizeof line, "tier probe file://%s", dir);
    expect(0, line, "objects can be written");
    snprintf(line, sizeof line, "tier probe --json file://%s", dir);
    expect(0, line, "\"conditional\":true");
    snprintf(line, sizeof line, "tier probe file://%s/none", dir);
    expect(1, line, "the folder is not there");
    expect(1, "tier probe ftp://host", "use one of file://");
    expect(1, "tier probe redis://user:hunter2@host", "tier_credentials");
    expect(1, "tier probe s3://bucket", "no keys");
    expect(2, "tier probe a b", "probe [URL]");
    expect(3, "tier probe --socket /nonexistent", "");
    temp_dir_free(dir);
}

Test(tier_command, without_libcurl_a_line_names_it)
{
    char *dir = temp_dir_new(), *library = path_join(dir, "libcurl.so.4"), *out;
    char *other = path_join(dir, "libcurl-gnutls.so.4"), *program = bin_path("warm");
    file_write(library, "", 0);
    file_write(other, "", 0);
    int status =
        run_command(&out, "LD_LIBRARY_PATH=%s %s tier probe http://127.0.0.1:1 2>&1", dir, program);
    cr_assert_eq(status, 1);
    cr_assert(strstr(out, "need libcurl.so.4: install libcurl4"), "%s", out);
    free(out);
    status = run_command(&out, "LD_LIBRARY_PATH=%s %s tier probe file://%s", dir, program, dir);
    cr_assert_eq(status, 0, "a folder needs none");
    free(out);
    free(program);
    free(library);
    free(other);
    temp_dir_free(dir);
}

Test(tier_command, an_s3_and_its_credentials)
{
    static const char *const argv[] = {"python3", "tests/tier/fake_s3.py", NULL};
    char *dir = temp_dir_new(), *keys = path_join(dir, "keys"), line[600];
    struct engine s3;
    engine_start(&s3, argv);
    file_write(keys, "access_key = AKID\nsecret_key = hunter2\n", 39);
    chmod(keys, 0644);
    snprintf(line, sizeof line,
             "tier probe --credentials %s s3://warm/x?endpoint=http://127.0.0.1:%d", keys, s3.port);
    expect(1, line, "chmod 600");
    chmod(keys, 0600);
    expect(1, line, "secret_key is wrong");
    file_write(keys, "access_key = AKID\nsecret_key = SECRET\n", 38);
    expect(0, line, "one machine compiles, the others wait for it");
    engine_tell(&s3, "conditions=off", NULL, 0);
    engine_tell(&s3, "clock=600", NULL, 0);
    expect(0, line, "so there are no leases");
    expect(0, line, "its clock is ");
    file_write(keys, "secret_kee = x\n", 15);
    expect(1, line, "line 1 is unknown");
    engine_stop(&s3);
    free(keys);
    temp_dir_free(dir);
}

Test(tier_command, keygen_prints_the_whole_path_of_the_key)
{
    char *dir = temp_dir_new(), line[400], want[400];
    snprintf(line, sizeof line, "tier keygen test-1 %s/./key", dir);
    snprintf(want, sizeof want, "tier_key = %s/key\n", dir);
    expect(0, line, want);
    temp_dir_free(dir);
}

Test(tier_command, doctor_tells_what_the_tier_can_do)
{
    struct warmd k = warmd_new();
    char *tier = path_join(k.dir, "tier"), *key = path_join(k.dir, "key"), line[700];
    snprintf(line, sizeof line, "tier keygen test-1 %s", key);
    expect(0, line, "tier_trusted = test-1:");
    mkdir(tier, 0755);
    snprintf(line, sizeof line, "file://%s", tier);
    char *options[] = {"--tier", line, "--tier-key", key, NULL};
    warmd_start(&k, options);
    char doctor[300];
    snprintf(doctor, sizeof doctor, "doctor --socket %s", k.socket);
    char *program = bin_path("warm"), *out;
    run_command(&out, "%s %s 2>&1", program, doctor);
    cr_assert(strstr(out, "the folder can be read and written"), "%s", out);
    free(out);
    rmdir(tier);
    run_command(&out, "rm -rf %s; %s %s 2>&1", tier, program, doctor);
    cr_assert(strstr(out, "the folder is not there"), "%s", out);
    free(out);
    free(program);
    free(tier);
    free(key);
    warmd_down(&k);
}
