/* SPDX-License-Identifier: Apache-2.0 */
/*
 * element.c - decides which double an element of a tensor is, and which element is nearest to a double. The
 * interpreter, constants and .npy files of all types go through it.
 *
 * Thread: any; no state.
 */
#include <math.h>
#include <string.h>

#include "kernels/program/program.h"

/* Returns the number of a format of 16 bits with this many bits of mantissa. */
static double narrow_get(uint32_t bits, int mantissa)
{
    int exponents = 15 - mantissa, most = (1 << exponents) - 1, bias = most / 2;
    int exponent = (int)(bits >> mantissa) & most;
    double part = (double)(bits & ((1u << mantissa) - 1)), x;
    if (exponent == most)
        x = part > 0 ? NAN : INFINITY;
    else if (exponent == 0)
        x = ldexp(part, 1 - bias - mantissa);
    else
        x = ldexp(part + (double)(1u << mantissa), exponent - bias - mantissa);
    return bits & 0x8000u ? -x : x;
}

/* Returns the bits of the nearest number of such a format; of two, the even one. */
static uint32_t narrow_put(double x, int mantissa)
{
    int exponents = 15 - mantissa, most = (1 << exponents) - 1, bias = most / 2, exponent;
    uint32_t sign = signbit(x) ? 0x8000u : 0, infinity = (uint32_t)most << mantissa;
    if (isnan(x))
        return sign | infinity | 1u << (mantissa - 1);
    if (isinf(x))
        return sign | infinity;
    frexp(x, &exponent); /* |x| is in [2^(exponent - 1), 2^exponent) */
    int first = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double steps = rint(ldexp(fabs(x), mantissa - first));
    if (x == 0)
        return sign;
    uint32_t bits = (uint32_t)steps + ((uint32_t)(first + bias - 1) << mantissa);
    return sign | (bits < infinity ? bits : infinity);
}

long double program_elem_get(enum elem elem, const uint8_t *at)
{
    uint32_t size = program_elem_size(elem), shift = 64 - 8 * size;
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    float f;
    double d;
    switch (elem) {
    case ELEM_F32: memcpy(&f, at, sizeof f); return (double)f;
    case ELEM_F64: memcpy(&d, at, sizeof d); return d;
    case ELEM_F16: return narrow_get((uint32_t)bits, 10);
    case ELEM_BF16: return narrow_get((uint32_t)bits, 7);
    case ELEM_I1: return bits != 0;
    default:
        return program_elem_kind(elem) == KIND_UNSIGNED
                   ? (long double)bits
                   : (long double)((int64_t)(bits << shift) >> shift);
    }
}

/* Returns the bits of the nearest whole number, toward 0; of NaN, of 0. */
static uint64_t whole_put(enum elem elem, long double x)
{
    bool is_signed = program_elem_kind(elem) == KIND_SIGNED;
    int bits = (int)(8 * program_elem_size(elem)) - is_signed;
    uint64_t most = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (isnan(x))
        return 0;
    if (x >= ldexp(1, bits))
        return most;
    if (x < 0)
        return !is_signed ? 0 : x <= -ldexp(1, bits) ? ~most : (uint64_t)(int64_t)x;
    return (uint64_t)x;
}

void program_elem_put(enum elem elem, long double value, uint8_t *at)
{
    double d = (double)value;
    float f = (float)d;
    uint64_t bits;
    switch (elem) {
    case ELEM_F32: memcpy(at, &f, sizeof f); return;
    case ELEM_F64: memcpy(at, &d, sizeof d); return;
    case ELEM_F16: bits = narrow_put(d, 10); break;
    case ELEM_BF16: bits = narrow_put(d, 7); break;
    case ELEM_I1: bits = value != 0; break;
    default: bits = whole_put(elem, value); break;
    }
    memcpy(at, &bits, program_elem_size(elem)); /* this machine is little-endian */
}
