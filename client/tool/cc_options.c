/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cc_options.c - decides how each option of gcc, g++ and clang counts: one table. cc.c looks every
 * argument up, nvidia.c those for the host's compiler; cc_options.h explains the rules.
 *
 * Source: GCC's manual, "Option Summary"; "Clang command line argument reference"; the manual of
 * ld.
 *
 * Thread: any; no state.
 */
#include "client/tool/cc_options.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define WRITES "it writes files that warm does not keep"
#define READS "it reads options or code that the key does not cover"
#define TIMES "it prints times or sizes that the compiler measures, which differ in each run"
#define NAMES "it writes the command line into the result"
#define TRACES "the linker prints names of temporary files, which differ in each run"
#define PARTS "its result has or needs files that warm does not follow"

/* The first row that fits counts: an exception stands before its family. */
static const struct cc_option table[] = {
    /* outputs and inputs */
    {"-o", EITHER, OUTPUT, NULL},
    {"-x", EITHER, LANGUAGE, NULL},
    {"-c", ALONE, STOP, NULL},
    {"-S", ALONE, STOP, NULL},
    {"-E", ALONE, STOP, NULL},
    {"-M", ALONE, PRINT, NULL},
    {"-MM", ALONE, PRINT, NULL},
    {"-fsyntax-only", ALONE, PRINT, NULL},
    {"-MD", ALONE, DEPENDENCIES, NULL},
    {"-MMD", ALONE, DEPENDENCIES, NULL},
    {"-MF", EITHER, DEPENDENCY_FILE, NULL},
    {"-MT", EITHER, PATH, NULL},
    {"-MQ", EITHER, PATH, NULL},
    {"-MP", ALONE, KEEP, NULL},
    {"-MV", ALONE, KEEP, NULL},
    {"-MG", ALONE, REFUSE, "it takes a missing header for one that is made later"},
    {"@", PREFIX, REFUSE, "warm cannot read this file of options: write them on the command line"},
    {"-", ALONE, STDIN, NULL},

    /* the preprocessor */
    {"-D", EITHER, KEEP, NULL},
    {"-U", EITHER, KEEP, NULL},
    {"-A", EITHER, KEEP, NULL},
    {"-I", EITHER, FOLDER_TO_SEARCH, NULL},
    {"-isystem", EITHER, FOLDER_TO_SEARCH, NULL},
    {"-iquote", EITHER, FOLDER_TO_SEARCH, NULL},
    {"-idirafter", EITHER, FOLDER_TO_SEARCH, NULL},
    {"-cxx-isystem", EITHER, FOLDER_TO_SEARCH, NULL},
    {"-include-pch", PREFIX, REFUSE,
     "Clang compares the times of the files that the header was made from"},
    {"-include", EITHER, INCLUDE, NULL},
    {"-imacros", EITHER, PATH, NULL},
    {"-iprefix", EITHER, KEEP, NULL},
    {"-iwithprefixbefore", EITHER, KEEP, NULL},
    {"-iwithprefix", EITHER, KEEP, NULL},
    {"-isysroot", EITHER, KEEP, NULL},
    {"-imultilib", SEPARATE, KEEP, NULL},
    {"--sysroot", SEPARATE, KEEP, NULL},
    {"--sysroot=", PREFIX, KEEP, NULL},
    {"-nostdinc", ALONE, KEEP, NULL},
    {"-nostdinc++", ALONE, KEEP, NULL},
    {"-nobuiltininc", ALONE, KEEP, NULL},
    {"-undef", ALONE, KEEP, NULL},
    {"-trigraphs", ALONE, KEEP, NULL},
    {"-traditional", ALONE, SHOWS, NULL},
    {"-traditional-cpp", ALONE, SHOWS, NULL},
    {"-remap", ALONE, KEEP, NULL},
    {"-C", ALONE, KEEP, NULL},
    {"-CC", ALONE, KEEP, NULL},
    {"-P", ALONE, KEEP, NULL},
    {"-H", ALONE, KEEP, NULL},
    {"-dM", ALONE, KEEP, NULL},
    {"-dD", ALONE, KEEP, NULL},
    {"-dN", ALONE, KEEP, NULL},
    {"-dI", ALONE, KEEP, NULL},
    {"-dU", ALONE, KEEP, NULL},

    /* printing only */
    {"--version", ALONE, KEEP, NULL},
    {"--help", PREFIX, KEEP, NULL},
    {"--target-help", ALONE, KEEP, NULL},
    {"-dumpversion", ALONE, KEEP, NULL},
    {"-dumpfullversion", ALONE, KEEP, NULL},
    {"-dumpmachine", ALONE, KEEP, NULL},
    {"-dumpspecs", ALONE, KEEP, NULL},
    {"-print-", PREFIX, KEEP, NULL},
    {"--print-", PREFIX, KEEP, NULL},
    {"-v", ALONE, VERBOSE, NULL},
    {"--verbose", ALONE, VERBOSE, NULL},
    {"-###", ALONE, VERBOSE, NULL},
    {"-Q", ALONE, REFUSE, TIMES},
    {"-time", PREFIX, REFUSE, TIMES},
    {"-d", PREFIX, REFUSE, WRITES},

    /* debug information */
    {"-g0", ALONE, NO_DEBUG, NULL},
    {"-gsplit-dwarf", ALONE, SPLIT, NULL},
    {"-gsplit-dwarf", PREFIX, REFUSE, WRITES},
    {"-gmodules", ALONE, REFUSE, PARTS},
    {"-grecord-command-line", ALONE, REFUSE, NAMES},
    {"-g", PREFIX, DEBUG, NULL},
    {"-fworking-directory", ALONE, DEBUG, NULL}, /* shows it */

    /* code and messages: options that do more stand first, then those that show no names */
    {"-frecord-command-line", ALONE, REFUSE, NAMES},
    {"-fbranch-probabilities", ALONE, REFUSE, READS},
    {"-fprofile", PREFIX, REFUSE, READS},
    {"-fcs-profile", PREFIX, REFUSE, READS},
    {"-fmemory-profile", PREFIX, REFUSE, WRITES},
    {"-fauto-profile", PREFIX, REFUSE, READS},
    {"-ftest-coverage", ALONE, REFUSE, WRITES},
    {"-fcreate-profile", ALONE, REFUSE, WRITES},
    {"-fdump", PREFIX, REFUSE, WRITES},
    {"-fdiagnostics-format=", PREFIX, REFUSE, WRITES},
    {"-fdiagnostics-add-output", PREFIX, REFUSE, WRITES},
    {"-fdiagnostics-set-output", PREFIX, REFUSE, WRITES},
    {"-fstack-usage", ALONE, REFUSE, WRITES},
    {"-fcallgraph-info", PREFIX, REFUSE, WRITES},
    {"-fopt-info", PREFIX, REFUSE, WRITES},
    {"-fsave-optimization-record", PREFIX, REFUSE, WRITES},
    {"-foptimization-record", PREFIX, REFUSE, WRITES},
    {"-fcrash-diagnostics", PREFIX, REFUSE, WRITES},
    {"-fmodule", PREFIX, REFUSE, PARTS},
    {"-fimplicit-module", PREFIX, REFUSE, PARTS},
    {"-fbuiltin-module", PREFIX, REFUSE, PARTS},
    {"-fprebuilt", PREFIX, REFUSE, PARTS},
    {"-fdeps", PREFIX, REFUSE, WRITES},
    {"-fpch-preprocess", ALONE, REFUSE, PARTS},
    {"-fplugin", PREFIX, REFUSE, READS},
    {"-fpass-plugin", PREFIX, REFUSE, READS},
    {"-flto", PREFIX, LTO, NULL},
    {"-frandom-seed=", PREFIX, SEED, NULL},
    {"-fthin", PREFIX, REFUSE, READS},
    {"-foffload", PREFIX, REFUSE, PARTS},
    {"-fopenmp-targets", PREFIX, REFUSE, PARTS},
    {"-fcompare-debug", PREFIX, REFUSE, PARTS},
    {"-ftime", PREFIX, REFUSE, TIMES},
    {"-fproc-stat", PREFIX, REFUSE, TIMES},
    {"-fmem-report", PREFIX, REFUSE, TIMES},
    {"-fpre-ipa-mem-report", ALONE, REFUSE, TIMES},
    {"-fpost-ipa-mem-report", ALONE, REFUSE, TIMES},
    {"-fstats", ALONE, REFUSE, TIMES},
    {"-fverify", PREFIX, REFUSE, READS},
    {"-fada", PREFIX, REFUSE, PARTS},
    {"-fself-test", PREFIX, REFUSE, READS},
    {"-fno-", PREFIX, KEEP, NULL},
    {"-fPIC", PREFIX, KEEP, NULL},
    {"-fpic", PREFIX, KEEP, NULL},
    {"-fPIE", PREFIX, KEEP, NULL},
    {"-fpie", PREFIX, KEEP, NULL},
    {"-fplt", PREFIX, KEEP, NULL},
    {"-fopenmp", PREFIX, KEEP, NULL},
    {"-falign", PREFIX, KEEP, NULL},
    {"-fassociative-math", PREFIX, KEEP, NULL},
    {"-fbuiltin", PREFIX, KEEP, NULL},
    {"-fcf-protection", PREFIX, KEEP, NULL},
    {"-fchar8_t", PREFIX, KEEP, NULL},
    {"-fcoroutines", PREFIX, KEEP, NULL},
    {"-fconcepts", PREFIX, KEEP, NULL},
    {"-fcommon", PREFIX, KEEP, NULL},
    {"-fcolor-diagnostics", PREFIX, KEEP, NULL},
    {"-fcx-", PREFIX, KEEP, NULL},
    {"-fdata-sections", PREFIX, KEEP, NULL},
    {"-fdelete-null-pointer-checks", PREFIX, KEEP, NULL},
    {"-fdiagnostics-color", PREFIX, KEEP, NULL},
    {"-fdiagnostics-show", PREFIX, KEEP, NULL},
    {"-fexceptions", PREFIX, KEEP, NULL},
    {"-ffast-math", PREFIX, KEEP, NULL},
    {"-ffinite-math-only", PREFIX, KEEP, NULL},
    {"-ffloat-store", PREFIX, KEEP, NULL},
    {"-ffp-", PREFIX, KEEP, NULL},
    {"-ffreestanding", PREFIX, KEEP, NULL},
    {"-ffunction-sections", PREFIX, KEEP, NULL},
    {"-fgnu", PREFIX, KEEP, NULL},
    {"-fhosted", PREFIX, KEEP, NULL},
    {"-finline", PREFIX, KEEP, NULL},
    {"-fipa", PREFIX, KEEP, NULL},
    {"-fivopts", PREFIX, KEEP, NULL},
    {"-fmath-errno", PREFIX, KEEP, NULL},
    {"-fmax-errors", PREFIX, KEEP, NULL},
    {"-fmerge-constants", PREFIX, KEEP, NULL},
    {"-fmessage-length", PREFIX, KEEP, NULL},
    {"-fms-extensions", PREFIX, KEEP, NULL},
    {"-fomit-frame-pointer", PREFIX, KEEP, NULL},
    {"-fpermissive", PREFIX, KEEP, NULL},
    {"-freciprocal-math", PREFIX, KEEP, NULL},
    {"-frtti", PREFIX, KEEP, NULL},
    {"-fschedule-insns", PREFIX, KEEP, NULL},
    {"-fshort-enums", PREFIX, KEEP, NULL},
    {"-fsigned-char", PREFIX, KEEP, NULL},
    {"-fsigned-zeros", PREFIX, KEEP, NULL},
    {"-fsized-deallocation", PREFIX, KEEP, NULL},
    {"-fslp-vectorize", PREFIX, KEEP, NULL},
    {"-fsemantic-interposition", PREFIX, KEEP, NULL},
    {"-fstack-clash-protection", PREFIX, KEEP, NULL},
    {"-fstack-protector", PREFIX, KEEP, NULL},
    {"-fstrict", PREFIX, KEEP, NULL},
    {"-fsplit", PREFIX, KEEP, NULL},
    {"-ftemplate-depth", PREFIX, KEEP, NULL},
    {"-ftrapping-math", PREFIX, KEEP, NULL},
    {"-ftrapv", PREFIX, KEEP, NULL},
    {"-ftree", PREFIX, KEEP, NULL},
    {"-fuse-ld=", PREFIX, KEEP, NULL},
    {"-funroll", PREFIX, KEEP, NULL},
    {"-funsafe-math-optimizations", PREFIX, KEEP, NULL},
    {"-funsigned-char", PREFIX, KEEP, NULL},
    {"-funwind-tables", PREFIX, KEEP, NULL},
    {"-fvect-cost-model", PREFIX, KEEP, NULL},
    {"-fvectorize", PREFIX, KEEP, NULL},
    {"-fvisibility", PREFIX, KEEP, NULL},
    {"-fwrapv", PREFIX, KEEP, NULL},
    {"-f", PREFIX, SHOWS, NULL},
    {"-mllvm", SEPARATE, REFUSE, READS},
    {"-m", PREFIX, KEEP, NULL},
    {"-O", PREFIX, KEEP, NULL},
    {"-std=", PREFIX, KEEP, NULL},
    {"--std=", PREFIX, KEEP, NULL},
    {"-stdlib=", PREFIX, KEEP, NULL},
    {"-ansi", ALONE, KEEP, NULL},
    {"-pedantic", ALONE, KEEP, NULL},
    {"-pedantic-errors", ALONE, KEEP, NULL},
    {"-w", ALONE, KEEP, NULL},
    {"-Wl,-t", ALONE, REFUSE, TRACES},
    {"-Wl,--trace", ALONE, REFUSE, TRACES},
    {"-Wl,-Map", PREFIX, REFUSE, WRITES},
    {"-Wl,", PREFIX, LINKER, NULL},
    {"-Wa,", PREFIX, ASSEMBLER, NULL},
    {"-Wp,", PREFIX, PREPROCESSOR, NULL},
    {"-W", PREFIX, KEEP, NULL},
    {"-Qunused-arguments", ALONE, KEEP, NULL},
    {"--param", SEPARATE, KEEP, NULL},
    {"--param=", PREFIX, KEEP, NULL},
    {"-pthread", ALONE, KEEP, NULL},
    {"-pipe", ALONE, KEEP, NULL},
    {"-p", ALONE, DEBUG, NULL}, /* as -g for profilers, which read the sources */
    {"-pg", ALONE, DEBUG, NULL},
    {"-emit-llvm", ALONE, SHOWS, NULL},
    {"-target", SEPARATE, KEEP, NULL},
    {"--target=", PREFIX, KEEP, NULL},
    {"--gcc-toolchain=", PREFIX, KEEP, NULL},
    {"--gcc-install-dir=", PREFIX, KEEP, NULL},
    {"-resource-dir", SEPARATE, KEEP, NULL},
    {"-resource-dir=", PREFIX, KEEP, NULL},
    {"-canonical-prefixes", ALONE, KEEP, NULL},
    {"-no-canonical-prefixes", ALONE, KEEP, NULL},
    {"-pass-exit-codes", ALONE, KEEP, NULL},
    {"-B", EITHER, KEEP, NULL},

    /* linking */
    {"-L", EITHER, PATH, NULL},
    {"-l", EITHER, KEEP, NULL},
    {"-T", EITHER, KEEP, NULL},
    {"-u", EITHER, KEEP, NULL},
    {"-z", EITHER, KEEP, NULL},
    {"-e", SEPARATE, KEEP, NULL},
    {"-Xlinker", SEPARATE, LINKER, NULL},
    {"-shared", ALONE, KEEP, NULL},
    {"-static", ALONE, KEEP, NULL},
    {"-static-pie", ALONE, KEEP, NULL},
    {"-static-libgcc", ALONE, KEEP, NULL},
    {"-static-libstdc++", ALONE, KEEP, NULL},
    {"-static-libasan", ALONE, KEEP, NULL},
    {"-static-libubsan", ALONE, KEEP, NULL},
    {"-static-libtsan", ALONE, KEEP, NULL},
    {"-static-openmp", ALONE, KEEP, NULL},
    {"-shared-libgcc", ALONE, KEEP, NULL},
    {"-pie", ALONE, KEEP, NULL},
    {"-no-pie", ALONE, KEEP, NULL},
    {"-nopie", ALONE, KEEP, NULL},
    {"-rdynamic", ALONE, KEEP, NULL},
    {"-symbolic", ALONE, KEEP, NULL},
    {"-nostdlib", ALONE, KEEP, NULL},
    {"-nostdlib++", ALONE, KEEP, NULL},
    {"-nodefaultlibs", ALONE, KEEP, NULL},
    {"-nolibc", ALONE, KEEP, NULL},
    {"-nostartfiles", ALONE, KEEP, NULL},
    {"-r", ALONE, KEEP, NULL},
    {"-s", ALONE, KEEP, NULL},
    {"-n", ALONE, KEEP, NULL},
    {"-N", ALONE, KEEP, NULL},

    /* refused with a reason */
    {"-Xclang", SEPARATE, REFUSE, READS},
    {"-Xassembler", SEPARATE, REFUSE, READS},
    {"-Xpreprocessor", SEPARATE, REFUSE, READS},
    {"-specs", PREFIX, REFUSE, READS},
    {"--specs", PREFIX, REFUSE, READS},
    {"--config", PREFIX, REFUSE, READS},
    {"-wrapper", SEPARATE, REFUSE, READS},
    {"--debug", PREFIX, REFUSE, "write -g instead, which warm knows"},
    {"--coverage", ALONE, REFUSE, WRITES},
    {"-coverage", ALONE, REFUSE, WRITES},
    {"-save-temps", PREFIX, REFUSE, WRITES},
    {"--save-temps", PREFIX, REFUSE, WRITES},
    {"-save-stats", PREFIX, REFUSE, WRITES},
    {"-aux-info", SEPARATE, REFUSE, WRITES},
    {"-emit-ast", ALONE, REFUSE, "it writes paths and times into the result"},
    {"--analyze", ALONE, REFUSE, WRITES},
};

const struct cc_option *cc_option_find(const char *arg)
{
    assert(arg);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct cc_option *o = &table[i];
        bool joined = o->form == PREFIX || o->form == EITHER;
        if (joined ? strncmp(arg, o->name, strlen(o->name)) == 0 : strcmp(arg, o->name) == 0)
            return o;
    }
    return NULL;
}

/* ---- options that are handed on ---- */

/* Options of ld, gold and lld that change the link, write no other files, and print no more than
 * warnings. The value of one that ends in '=' stands behind it. */
static const char *const linker_options[] = {"-rpath",
                                             "-rpath=",
                                             "-R",
                                             "-rpath-link",
                                             "-rpath-link=",
                                             "--rpath",
                                             "--rpath=",
                                             "-soname",
                                             "-soname=",
                                             "--soname",
                                             "--soname=",
                                             "-h",
                                             "--as-needed",
                                             "--no-as-needed",
                                             "--push-state",
                                             "--pop-state",
                                             "--whole-archive",
                                             "-whole-archive",
                                             "--no-whole-archive",
                                             "-no-whole-archive",
                                             "--start-group",
                                             "--end-group",
                                             "-(",
                                             "-)",
                                             "-z",
                                             "--gc-sections",
                                             "--no-gc-sections",
                                             "-gc-sections",
                                             "-Bsymbolic",
                                             "-Bsymbolic-functions",
                                             "-Bstatic",
                                             "-Bdynamic",
                                             "-E",
                                             "--export-dynamic",
                                             "-export-dynamic",
                                             "--exclude-libs",
                                             "--exclude-libs=",
                                             "--no-undefined",
                                             "-no-undefined",
                                             "--allow-shlib-undefined",
                                             "--no-allow-shlib-undefined",
                                             "--allow-multiple-definition",
                                             "--unresolved-symbols=",
                                             "--version-script",
                                             "--version-script=",
                                             "-version-script=",
                                             "--dynamic-list=",
                                             "--script=",
                                             "-T",
                                             "--defsym",
                                             "--defsym=",
                                             "--wrap",
                                             "--wrap=",
                                             "--undefined=",
                                             "-u",
                                             "--hash-style=",
                                             "-hash-style=",
                                             "--build-id",
                                             "--build-id=none",
                                             "--build-id=sha1",
                                             "--build-id=md5",
                                             "--build-id=0x",
                                             "--enable-new-dtags",
                                             "--disable-new-dtags",
                                             "--dynamic-linker",
                                             "--dynamic-linker=",
                                             "-dynamic-linker",
                                             "-O1",
                                             "-O2",
                                             "--sort-common",
                                             "--sort-section=",
                                             "--relax",
                                             "--no-relax",
                                             "-s",
                                             "-S",
                                             "-x",
                                             "-X",
                                             "-N",
                                             "-n",
                                             "--strip-all",
                                             "--strip-debug",
                                             "--compress-debug-sections=",
                                             "--fatal-warnings",
                                             "--no-fatal-warnings",
                                             "--warn-common",
                                             "--warn-unresolved-symbols",
                                             "--no-warn-rwx-segments",
                                             "--no-warnings",
                                             "--no-keep-memory",
                                             "--eh-frame-hdr",
                                             "--no-eh-frame-hdr",
                                             "--copy-dt-needed-entries",
                                             "--no-copy-dt-needed-entries",
                                             "--section-start=",
                                             "--image-base=",
                                             "--sysroot=",
                                             "--icf=",
                                             "--demangle",
                                             "--no-demangle",
                                             NULL};

/* Options of as, without its listings, which have a date. */
static const char *const assembler_options[] = {"--noexecstack",
                                                "--execstack",
                                                "--fatal-warnings",
                                                "--no-warn",
                                                "-W",
                                                "--64",
                                                "--32",
                                                "-mrelax-relocations=",
                                                "-march=",
                                                "-mtune=",
                                                "-mbranches-within-32B-boundaries",
                                                NULL};

static bool is_in(const char *const *list, const char *option, size_t len)
{
    for (; *list; list++) {
        size_t n = strlen(*list);
        bool valued = (*list)[n - 1] == '=' || strcmp(*list, "--build-id=0x") == 0;
        if (valued ? n <= len && memcmp(*list, option, n) == 0
                   : n == len && memcmp(*list, option, n) == 0)
            return true;
    }
    return false;
}

static bool knows_all(const char *const *list, const char *options)
{
    for (const char *at = options; *at;) {
        size_t len = strcspn(at, ",");
        if (*at == '@' || (*at == '-' && !is_in(list, at, len)))
            return false;
        at += len + (at[len] == ',');
    }
    return true;
}

bool cc_preprocessor_knows(const char *options)
{
    assert(options);
    bool is_macro = strncmp(options, "-D", 2) == 0 || strncmp(options, "-U", 2) == 0;
    return is_macro && !strchr(options, ',');
}

bool cc_linker_knows(const char *options) { return knows_all(linker_options, options); }

bool cc_assembler_knows(const char *options) { return knows_all(assembler_options, options); }
