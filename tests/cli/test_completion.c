/* SPDX-License-Identifier: Apache-2.0 */
/* test_completion.c - what bash completes after `warm`: options, keys, values and files. */
#include "tests/support/warmd.h"

/* Runs a script in the kit's folder, with the program as $1 and the completions in force. Returns its
 * output; free() it. */
static char *complete(const struct warmd *k, const char *socket, const char *script)
{
    static const char begin[] = "export PATH=\"${1%/*}:$PATH\"; source <(warm completion bash) && "
                                "bash -n <(warm completion zsh) || echo no script\n";
    char *program = bin_path("warm"), *path = path_join(k->dir, "script"), *text, *out;
    cr_assert_geq(asprintf(&text, "%s%s", begin, script), 0);
    file_write(path, text, strlen(text));
    run_command(&out, "cd '%s' && WARM_SOCKET='%s' bash script \"$(realpath '%s')\" 2>&1", k->dir,
                socket, program);
    free(text), free(path), free(program);
    return out;
}

/* The script asks the command for what may stand at a place. */
Test(completion, completes_keys_values_and_files)
{
    static const char script[] =
        "echo 1 >value-file; warm put name value-file\n"
        "at() { COMP_WORDS=(warm \"$@\") COMP_CWORD=$#; _warm; echo \"$*: ${COMPREPLY[*]}\"; }\n"
        "at show ''; at ls --kind tri; at ls --sort h; at import --from ja; at completion z\n"
        "at run python value-; at compile value-\n"
        "at daemon re; at config s; at toolchain ''; at tier k; at help ex; at config get max_s\n"
        "WARM_SESSION=my-session warm get none -o /dev/null 2>/dev/null; at why --session my\n";
    static const char *const rest[] = {
        "ls --kind tri: triton\n",         "ls --sort h: hits\n",
        "import --from ja: jax\n",         "completion z: zsh\n",
        "run python value-: value-file\n", "compile value-: value-file\n",
        "daemon re: reload restart\n",     "config s: show set\n",
        "toolchain : list find add\n",     "tier k: keygen\n",
        "help ex: exec export\n",          "config get max_s: max_size\n",
        "why --session my: my-session\n"};
    struct warmd k = warmd_up(NULL);
    char *out = complete(&k, k.socket, script), key[WARM_KEY_TEXT];
    struct key name = key_of_bytes("name", 4);
    key_to_text(&name, key);
    key[12] = '\0';
    cr_expect(strstr(out, key), "%s is not in %s", key, out);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        cr_expect(strstr(out, rest[i]), "%s: %s", rest[i], out);
    free(out);
    warmd_down(&k);
}

/* The scripts are made from the help, so this finds what the help says and the command has not. No daemon
 * can be started below a device: `doctor --fix` would. */
Test(completion, every_option_that_is_completed_is_one)
{
    static const char script[] =
        "COMP_WORDS=(warm '') COMP_CWORD=1; _warm\n"
        "for c in \"${COMPREPLY[@]}\"; do\n"
        "    [ $c != help ] || continue\n"
        "    COMP_WORDS=(warm $c -) COMP_CWORD=2; _warm\n"
        "    [ ${#COMPREPLY[@]} -gt 0 ] || echo none for $c\n"
        "    for o in \"${COMPREPLY[@]}\"; do\n"
        "        \"$1\" $c $o </dev/null 2>&1 | grep -H --label=\"$c\" 'unknown option'\n"
        "    done\n"
        "done\n";
    struct warmd k = warmd_new();
    char *out = complete(&k, "/dev/null/warmd.sock", script);
    cr_assert_str_eq(out, "");
    free(out);
    warmd_free(&k);
}
