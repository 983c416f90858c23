/* SPDX-License-Identifier: MIT */
/*
 * The kernel sets. Every set is body.h compiled over the vector words that its file defines; which
 * sets a build has depends on the machine it is for, which one runs on the processor (attend.c).
 */
#ifndef KVS_KERNELS_H
#define KVS_KERNELS_H

#include "attend.h"

extern const struct kvs_kernels kvs_kernels_generic;
extern const struct kvs_kernels kvs_kernels_avx2;
extern const struct kvs_kernels kvs_kernels_avx512;
extern const struct kvs_kernels kvs_kernels_avx512vnni;
extern const struct kvs_kernels kvs_kernels_avx512bf16;
extern const struct kvs_kernels kvs_kernels_neon;

#endif
