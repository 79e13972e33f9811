/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvvm.c - decides which libNVVM a call is for, and defines the functions that programs call instead, as
 * nvrtc.c does. dl.c asks it for a stand-in.
 *
 * Thread: any, no lock.
 */
#include "client/preload/nvvm/nvvm.h"

static struct libraries libraries;

#define STAND_INS_LIST "client/preload/nvvm/nvvm.fn"
#define STAND_INS_LIBRARY struct nvvm_library
#define STAND_INS_ON(name) nvvm_on_##name
#define STAND_INS_NAME(name) "nvvm" #name
#define STAND_INS_LACKS(name) false
#include "client/preload/stand_ins.h"

void *nvvm_stand_in(const char *name, void *real) { return stand_in(name, real); }
