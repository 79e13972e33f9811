/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvjitlink.c - decides which libnvJitLink a call is for, and defines the functions that programs
 * call instead, as nvrtc.c does. dl.c asks it for a stand-in.
 *
 * Thread: any, no lock.
 */
#include "client/preload/nvjitlink/nvjitlink.h"

#include "keygen/bytes.h"

static struct libraries libraries;

/* 12.x lacks the functions of linked LTO IR. */
#define STAND_INS_LIST "client/preload/nvjitlink/nvjitlink.fn"
#define STAND_INS_LIBRARY struct jitlink_library
#define STAND_INS_ON(name) jitlink_on_##name
#define STAND_INS_NAME(name) "nvJitLink" #name
#define STAND_INS_LACKS(name) text_begins(#name, "GetLinkedLTOIR")
#include "client/preload/stand_ins.h"

void *nvjitlink_stand_in(const char *name, void *real) { return stand_in(name, real); }
