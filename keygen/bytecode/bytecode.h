/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytecode.h - the inside of the bytecode reader, for the files of this folder only.
 *
 *   bytecode.c         the container: sections and tables
 *   walk.c             operations
 *   type.c             names, entries of the tables, and types as text
 *   builtin.c          attributes of the builtin dialect and VHLO as text
 *   stablehlo.c, sdy.c attributes of these dialects as text
 *   properties.c       names of the attributes in an operation's properties; VHLO operations as
 *                      StableHLO
 *
 * An unknown code stops the reading and sets `why`. The key is then that of the exact bytes.
 *
 * Terms
 *   entry   an attribute or a type in the file's tables
 *   put     to append text to `out`
 *
 * Thread: one at a time for a reader. Memory: views into the input; the tables and `out` are the
 * reader's own.
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
#include "keygen/canon/form.h"
#include "keygen/expect.h"

#define BYTECODE_VERSION_MAX 6u
/* The nesting limit of attributes and types, and of recursion. Real ones reach 6. */
#define BYTECODE_DEPTH_MAX 24
/* Dimensions of a constant and of a convolution. */
#define BYTECODE_DIMENSIONS_MAX 64
/* Operations share attributes, and each has them as text. This limits the text of `len` bytes. */
#define BYTECODE_TEXT_MAX(len) ((len)*64u + 65536u)
/* An unknown size. */
#define BYTECODE_DYNAMIC INT64_MIN

enum { /* bytecode versions that changed the format */
       BYTECODE_DIALECT_VERSIONS = 1,
       BYTECODE_LAZY_REGIONS = 2,
       BYTECODE_USE_LISTS = 3,
       BYTECODE_ELIDED_LOCATIONS = 4,
       BYTECODE_PROPERTIES = 5,
};

struct bytecode_opname;

enum bytecode_dialect {
    DIALECT_UNKNOWN,
    DIALECT_BUILTIN,
    DIALECT_STABLEHLO,
    DIALECT_VHLO,
    DIALECT_SDY
};

/* An attribute or a type, still encoded. It ends where the next one begins. */
struct bytecode_entry {
    uint32_t at;     /* bytes behind the file's start */
    bool custom;     /* encoded by its dialect; else it is text, ended by NUL */
    uint8_t dialect; /* enum bytecode_dialect */
};

/* The properties of an operation, still encoded. */
struct bytecode_properties {
    uint32_t at, len; /* behind the file's start */
};

/* The name of an operation, and the names of its properties. */
struct bytecode_opname {
    struct view dialect, name;
    const char *properties; /* names between blanks, '?' before an optional one; NULL: unknown */
    bool vhlo;              /* its name and attributes need translation */
};

struct bytecode {
    const struct canon_input *input;
    const uint8_t *start; /* of the file: alignments count from here */
    uint64_t version;
    uint32_t *strings; /* offset of each in the file, and of the end */
    struct view *dialects;
    struct bytecode_properties *properties;
    struct bytecode_opname *opnames;
    struct bytecode_entry *attrs, *types; /* one array: attributes, types, and the end */
    uint32_t n_strings, n_dialects, n_properties, n_opnames, n_attrs, n_types;
    struct writer out; /* text of types and attributes */
    int nested;        /* attributes and types that are open, one inside of the other */
    bool in_array;     /* the current attribute is an element: i64 and f64 are not printed */
    const char *why;   /* not NULL: the unknown thing that stopped the reading */
    const char *wrong; /* not NULL: the fault of the format that stopped the reading */
};

/* The numbers of the format. They fail if the reader fails. */
/* Reads a varint of any length. */
uint64_t bytecode_varint_long(struct reader *r);
/* Reads a varint. */
static inline __attribute__((always_inline)) uint64_t bytecode_varint(struct reader *r)
{
    const uint8_t *at = r->data; /* a reader that failed has no bytes left */
    if (r->len && at[0] & 1) {
        r->data = at + 1;
        r->len--;
        return at[0] >> 1;
    }
    if (r->len > 1 && at[0] & 2) {
        r->data = at + 2;
        r->len -= 2;
        return (at[0] | (unsigned)at[1] << 8) >> 2;
    }
    return bytecode_varint_long(r);
}
/* Reads a signed varint. */
int64_t bytecode_signed(struct reader *r);
/* Reads a varint whose lowest bit is a flag. */
uint64_t bytecode_flagged(struct reader *r, bool *flag);

/* Stops the reading: the key is that of the exact bytes. `why` is static. */
void bytecode_unknown(struct bytecode *b, const char *why);
/* Stops the reading: the input breaks the format. `what` is static. */
void bytecode_malformed(struct bytecode *b, const char *what);
/* Checks a promise. If it is broken, the key is that of the exact bytes. */
#define BYTECODE_EXPECT(b, promise) (WARM_EXPECT(promise) || bytecode_broken(b))
/* Stops the reading at a broken promise. Returns false. Use BYTECODE_EXPECT. */
bool bytecode_broken(struct bytecode *b);
/* True if the reading has stopped. */
static inline bool bytecode_stopped(const struct bytecode *b)
{
    return b->why || b->wrong || b->out.failed;
}

/* True if the memory is there; else the reading stops. */
static inline bool bytecode_got_memory(struct bytecode *b, const void *memory)
{
    if (!memory)
        b->out.failed = b->out.no_memory = true;
    return memory;
}

#define BYTECODE_IR 4 /* the section of operations */
/* Takes the next section: its id and data. Skips the padding of an alignment. */
struct reader bytecode_take_section(struct bytecode *b, struct reader *r, uint8_t *id);
/* Returns the i-th string; stops the reading if there is none. */
struct view bytecode_string(struct bytecode *b, uint64_t i);
/* Frees the tables. */
void bytecode_tables_close(struct bytecode *b);

/* ---- bytecode/walk.c ---- */

/* Puts the form of the operations, and frees the tables. UNSUPPORTED if the text reader rejects the
 * text of an attribute: the bytecode may be correct all the same. `len`: bytes of the file. */
int bytecode_form_ops(struct bytecode *b, struct reader operations, size_t len, struct form *out,
                      struct err *e);

/* ---- bytecode/type.c: `depth` is 0 in calls from outside ---- */

/* Puts text. */
static inline void bytecode_put(struct bytecode *b, const char *text)
{
    writer_bytes(&b->out, text, strlen(text));
}
/* Puts a number in decimal. */
void bytecode_put_u64(struct bytecode *b, uint64_t n);
/* Puts a signed number in decimal. */
void bytecode_put_i64(struct bytecode *b, int64_t n);
/* Puts a dimension or a bound: a number, or "?" for BYTECODE_DYNAMIC. */
void bytecode_put_size(struct bytecode *b, int64_t size);
/* Puts a string in quotes. */
void bytecode_put_string(struct bytecode *b, struct view s);
/* Puts a name as the key of a dictionary: quoted if it must be. */
void bytecode_put_key(struct bytecode *b, struct view name);
/* Puts "@name", quoted if it must be. */
void bytecode_put_symbol(struct bytecode *b, struct view name);
/* Returns an entry of a table. NULL, and the reading stops, if none has that number. */
struct bytecode_entry *bytecode_attr_entry(struct bytecode *b, uint64_t attr);
/* Does the same with a type. */
struct bytecode_entry *bytecode_type_entry(struct bytecode *b, uint64_t type);
/* Returns a reader over an encoded entry. */
struct reader bytecode_entry_reader(const struct bytecode *b, const struct bytecode_entry *e);
/* Puts an entry that the dialect encoded as text. */
void bytecode_put_text_entry(struct bytecode *b, const struct bytecode_entry *e);
/* Reads a number and returns the string that has it. */
struct view bytecode_read_string(struct bytecode *b, struct reader *r);
/* Reads the count of elements of at least one byte each. */
uint64_t bytecode_read_count(struct bytecode *b, struct reader *r);
/* Puts a type. */
void bytecode_put_type(struct bytecode *b, uint64_t type, int depth);
/* Reads a number and puts the type that has it. */
void bytecode_put_type_of(struct bytecode *b, struct reader *r, int depth);

/* ---- bytecode/builtin.c: `depth` as above ---- */

/* Notes an operation's location if it is the one that the input's caller seeks. */
void bytecode_seek(struct bytecode *b, const struct bytecode_opname *op, uint64_t location,
                   bool in_function);
/* Puts an attribute. */
void bytecode_put_attr(struct bytecode *b, uint64_t attr, int depth);
/* Reads a number and puts the attribute that has it. */
void bytecode_put_attr_of(struct bytecode *b, struct reader *r, int depth);
/* True if the attribute is a unit; printers write only its name. */
bool bytecode_attr_is_unit(struct bytecode *b, uint64_t attr);
/* Puts the entries of a dictionary attribute: "a = 1, b = 2". */
void bytecode_put_entries(struct bytecode *b, uint64_t attr);
/* Reads the code of an attribute of `dialect`; `rest` is behind it. False for another dialect. */
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

/* For the translation of VHLO. Each function is false if the attribute is of another kind. */
struct bytecode_vhlo {
    uint64_t code;
    struct reader rest; /* after the code */
};
/* Opens an attribute of VHLO: its code, and the reader behind it. */
bool bytecode_vhlo_open(struct bytecode *b, uint64_t attr, struct bytecode_vhlo *out);
/* Reads an integer. */
bool bytecode_vhlo_integer(struct bytecode *b, uint64_t attr, int64_t *out);
/* Reads a string of VHLO, or of the builtin dialect. */
bool bytecode_string_of(struct bytecode *b, uint64_t attr, struct view *out);
/* True for the type "none", which stands for an absent attribute. */
bool bytecode_vhlo_is_none(struct bytecode *b, uint64_t attr);
/* Puts a tensor of 64-bit integers or booleans as "1, 2" or "true". */
void bytecode_put_elements(struct bytecode *b, uint64_t attr);
/* Puts "[b, f, 0, 1]" for the names "bf". `first`, `second`: places of the named dimensions; `spatial`: the
 * attribute with the places of the others. */
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

/* Puts an attribute of StableHLO. `r` is behind its code. */
void bytecode_put_stablehlo_attr(struct bytecode *b, struct reader *r, uint64_t code);
/* Puts one side of a convolution, "[b, f, 0, 1]". `place`: of two named, then n - 2 spatial dimensions. */
void bytecode_put_places(struct bytecode *b, const int64_t *place, uint64_t n, const char *names);

/* ---- bytecode/sdy.c ---- */

/* Puts an attribute of the Shardy dialect. */
void bytecode_put_sdy_attr(struct bytecode *b, struct reader *r, int depth);

/* ---- bytecode/properties.c ---- */

/* Fills `properties` and `vhlo` of a name. */
void bytecode_opname_look_up(struct bytecode_opname *op);
/* Puts the name: StableHLO's for VHLO. `in_function`: directly in a function's body. */
void bytecode_put_opname(struct bytecode *b, const struct bytecode_opname *op, bool in_function);
/* Puts an operation's properties: "a = 1, b = 2". */
void bytecode_put_properties(struct bytecode *b, const struct bytecode_opname *op,
                             const struct bytecode_properties *properties);

#endif
