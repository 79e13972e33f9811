/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytecode.h - the inside of the bytecode reader, for mlir_bytecode*.c only.
 *
 *   bytecode/bytecode.c        the container: sections and tables
 *   bytecode/walk.c   operations as generic MLIR text
 *   bytecode/repeat.c   operations that say what earlier ones did (bytecode/walk.h)
 *   bytecode/type.c   names, entries of the tables, and types as text
 *   bytecode/attr.c   attributes of the builtin dialect and VHLO as text
 *   bytecode/stablehlo.c, bytecode/sdy.c   attributes of these dialects as text
 *   bytecode/ops.c    which attributes the properties of an operation hold; VHLO's spelling of
 *                          an operation into StableHLO's
 *
 * Whatever is not known stops the reading with `why`, and the key is then that of the exact bytes.
 *
 * Thread: one at a time. Memory: views into the input; the tables and `out` are the reader's own.
 * Source: MLIR Bytecode Format, https://mlir.llvm.org/docs/BytecodeFormat/; attribute and type
 * codes: StableHLO's bytecode.md and vhlo.md.
 */
#ifndef WARM_KEYGEN_BYTECODE_BYTECODE_H
#define WARM_KEYGEN_BYTECODE_BYTECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "keygen/bytes.h"
#include "keygen/canon/forms.h"

#define BYTECODE_VERSION_MAX 6u
/* Attributes and types nest as deep as this, and recursion goes no deeper. Real ones reach 6. */
#define BYTECODE_DEPTH_MAX 24
/* Dimensions of a constant and of a convolution. */
#define BYTECODE_DIMENSIONS_MAX 64
/* An attribute that operations share is text in each: a bound on what an input of `len` bytes can become. */
#define BYTECODE_TEXT_MAX(len) ((len)*64u + 65536u)
/* A size that is not known. */
#define BYTECODE_DYNAMIC INT64_MIN

enum { /* bytecode versions that changed what is read */
       BYTECODE_DIALECT_VERSIONS = 1,
       BYTECODE_LAZY_REGIONS = 2,
       BYTECODE_USE_LISTS = 3,
       BYTECODE_ELIDED_LOCATIONS = 4,
       BYTECODE_PROPERTIES = 5,
};

struct bytecode_opname;

/* An attribute or a type, still encoded: it ends where the next begins. Its dialect: `groups`. */
struct bytecode_entry {
    uint32_t at;         /* bytes behind the file's start */
    uint32_t memo : 31;  /* of its text */
    uint32_t custom : 1; /* the dialect's own encoding; else its text, ended by NUL */
};

enum bytecode_dialect {
    DIALECT_UNKNOWN,
    DIALECT_BUILTIN,
    DIALECT_STABLEHLO,
    DIALECT_VHLO,
    DIALECT_SDY
};

/* From this entry on (attributes, then types) they are of this dialect. */
struct bytecode_group {
    uint32_t first;
    enum bytecode_dialect dialect;
};

/* The properties of an operation, still encoded. */
struct bytecode_properties {
    uint32_t at, len; /* behind the file's start */
};

/* The name of an operation, and what its properties are. */
struct bytecode_opname {
    struct view dialect, name;
    const char *properties; /* names apart by blanks, '?' before an optional one; NULL: unknown */
    bool vhlo;              /* its name and attributes need translation */
};

struct bytecode {
    const struct canon_input *input;
    const uint8_t *start; /* of the file: alignments count from here */
    uint64_t version;
    uint32_t *strings; /* where each begins, behind the file's start, and the last one ends */
    struct view *dialects;
    struct bytecode_properties *properties;
    struct bytecode_opname *opnames;
    struct bytecode_entry *attrs,
        *types; /* one array: attributes, types, and where the last ends */
    struct bytecode_group *groups;
    uint32_t n_groups, n_strings, n_dialects, n_properties, n_opnames, n_attrs, n_types;
    struct writer out;  /* generic MLIR text */
    struct writer memo; /* texts of attributes and types that were printed */
    int nested;         /* attributes and types that are being put, one inside the other */
    bool in_array;      /* the attribute at hand is an element: i64 and f64 are not printed */
    const char *why;    /* not NULL: what was met that is not known; reading stops */
    const char *wrong;  /* not NULL: what breaks the format; reading stops */
};

/* Numbers of the format; they fail with the reader. */
uint64_t bytecode_varint_long(struct reader *r);
static inline uint64_t bytecode_varint(struct reader *r)
{
    if (!r->len || r->failed || !(*r->data & 1))
        return bytecode_varint_long(r);
    r->len--; /* one byte, as most are */
    return *r->data++ >> 1;
}
int64_t bytecode_signed(struct reader *r);
/* A varint whose lowest bit is a flag. */
uint64_t bytecode_flagged(struct reader *r, bool *flag);

void bytecode_unknown(struct bytecode *b, const char *why);
void bytecode_malformed(struct bytecode *b, const char *what);
static inline bool bytecode_stopped(const struct bytecode *b)
{
    return b->why || b->wrong || b->out.failed;
}

/* What was put since the text had the length `start` is the entry's text: kept if it comes again. */
void bytecode_memo_keep(struct bytecode *b, struct bytecode_entry *e, size_t start);
/* False if nothing is kept; else it is put. */
bool bytecode_memo_put(struct bytecode *b, const struct bytecode_entry *e);

#define BYTECODE_IR 4 /* the section of operations */
/* The next section: its id and data. Padding up to an alignment is skipped. */
struct reader bytecode_take_section(struct bytecode *b, struct reader *r, uint8_t *id);
struct view bytecode_string(struct bytecode *b, uint64_t i);
/* Frees what the text is made from. */
void bytecode_tables_close(struct bytecode *b);

/* ---- bytecode/walk.c ---- */

/* The key of the operations as text. What its reader cannot use is not to be blamed on the bytecode: it
 * is UNSUPPORTED. `len`: of the file. */
int bytecode_form_ops(struct bytecode *b, struct reader operations, size_t len, struct form *out,
                      struct err *e);

/* ---- bytecode/type.c: `depth` is 0 but inside of these functions ---- */

static inline bool view_is(struct view v, const char *text)
{
    return v.len && *(const char *)v.data == *text && v.len == strlen(text) &&
           memcmp(v.data, text, v.len) == 0;
}
static inline void bytecode_put(struct bytecode *b, const char *text)
{
    writer_bytes(&b->out, text, strlen(text));
}
void bytecode_put_u64(struct bytecode *b, uint64_t n);
void bytecode_put_i64(struct bytecode *b, int64_t n);
/* A dimension or a bound: a number, or "?" for BYTECODE_DYNAMIC. */
void bytecode_put_size(struct bytecode *b, int64_t size);
void bytecode_put_string(struct bytecode *b, struct view s);
/* A name as the key of a dictionary: quoted if it must be. */
void bytecode_put_key(struct bytecode *b, struct view name);
/* "@name", quoted if it must be. */
void bytecode_put_symbol(struct bytecode *b, struct view name);
/* An entry of a table; NULL, and the reading stops, if there is none of that number. */
struct bytecode_entry *bytecode_attr_entry(struct bytecode *b, uint64_t attr);
struct bytecode_entry *bytecode_type_entry(struct bytecode *b, uint64_t type);
struct reader bytecode_entry_reader(const struct bytecode *b, const struct bytecode_entry *e);
/* True if the entry is of this dialect. */
bool bytecode_entry_is(const struct bytecode *b, const struct bytecode_entry *e,
                       enum bytecode_dialect dialect);
/* Text that the dialect printed itself. */
void bytecode_put_text_entry(struct bytecode *b, const struct bytecode_entry *e);
/* The string whose number comes next. */
struct view bytecode_read_string(struct bytecode *b, struct reader *r);
/* A count whose elements take a byte or more each. */
uint64_t bytecode_read_count(struct bytecode *b, struct reader *r);
void bytecode_put_type(struct bytecode *b, uint64_t type, int depth);
/* The type whose number comes next. */
void bytecode_put_type_of(struct bytecode *b, struct reader *r, int depth);

/* ---- bytecode/attr.c: `depth` as above ---- */

void bytecode_put_attr(struct bytecode *b, uint64_t attr, int depth);
/* The attribute whose number comes next. */
void bytecode_put_attr_of(struct bytecode *b, struct reader *r, int depth);
/* True if the attribute is a unit, of which only the name is printed. */
bool bytecode_attr_is_unit(struct bytecode *b, uint64_t attr);
/* "a = 1, b = 2": the entries of a dictionary attribute. */
void bytecode_put_entries(struct bytecode *b, uint64_t attr);
/* The code of an attribute of `dialect`, and what follows it; false if it is of another. */
bool bytecode_attr_open(struct bytecode *b, uint64_t attr, enum bytecode_dialect dialect,
                        struct reader *rest, uint64_t *code);

enum { /* VHLO's codes */
       VHLO_ARRAY = 1,
       VHLO_BOOL = 2,
       VHLO_COMPARISON_TYPE = 4,
       VHLO_DICT = 6,
       VHLO_INTEGER = 9,
       VHLO_PRECISION = 11,
       VHLO_STRING = 14,
       VHLO_TENSOR = 15,
       VHLO_TYPE = 17,
       VHLO_ACCURACY_MODE = 19,
       VHLO_ACCURACY = 20,
};

/* What the translation of VHLO looks at. Each is false if the attribute is of another kind. */
struct bytecode_vhlo {
    uint64_t code;
    struct reader rest; /* after the code */
};
bool bytecode_vhlo_open(struct bytecode *b, uint64_t attr, struct bytecode_vhlo *out);
bool bytecode_vhlo_integer(struct bytecode *b, uint64_t attr, int64_t *out);
bool bytecode_vhlo_string(struct bytecode *b, uint64_t attr, struct view *out);
/* True for the type "none", which stands for an absent attribute. */
bool bytecode_vhlo_is_none(struct bytecode *b, uint64_t attr);
/* A tensor of 64-bit integers or booleans as "1, 2" or "true". */
void bytecode_put_elements(struct bytecode *b, uint64_t attr);
/* "[b, f, 0, 1]" for the names "bf": where two named dimensions and the spatial ones stand. */
void bytecode_put_conv_side(struct bytecode *b, const char *names, int64_t first, int64_t second,
                            uint64_t spatial);

/* ---- bytecode/stablehlo.c ---- */

enum { /* StableHLO's codes */
       STABLEHLO_CHANNEL = 1,
       STABLEHLO_COMPARISON_DIRECTION,
       STABLEHLO_COMPARISON_TYPE,
       STABLEHLO_CONV,
       STABLEHLO_DOT,
       STABLEHLO_FFT_TYPE,
       STABLEHLO_GATHER,
       STABLEHLO_PRECISION,
       STABLEHLO_RNG_ALGORITHM,
       STABLEHLO_RNG_DISTRIBUTION,
       STABLEHLO_SCATTER,
       STABLEHLO_TRANSPOSE,
       STABLEHLO_BOUNDS,
       STABLEHLO_ALIAS,
};

/* An attribute whose code is read already. */
void bytecode_put_stablehlo_attr(struct bytecode *b, struct reader *r, uint64_t code);
/* One side of a convolution, "[b, f, 0, 1]": where each of two named and n - 2 spatial dimensions is. */
void bytecode_put_places(struct bytecode *b, const int64_t *place, uint64_t n, const char *names);

/* ---- bytecode/sdy.c ---- */

void bytecode_put_sdy_attr(struct bytecode *b, struct reader *r, int depth);

/* ---- bytecode/ops.c ---- */

/* Fills `properties` and `vhlo` of a name. */
void bytecode_opname_look_up(struct bytecode_opname *op);
/* The name in text: StableHLO's for VHLO. `in_function`: directly in a function's body. */
void bytecode_put_opname(struct bytecode *b, const struct bytecode_opname *op, bool in_function);
/* "a = 1, b = 2" of an operation's properties. */
void bytecode_put_properties(struct bytecode *b, const struct bytecode_opname *op,
                             const struct bytecode_properties *properties);

#endif
