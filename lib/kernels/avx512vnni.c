// SPDX-License-Identifier: MIT
/*
 * Kernels for AVX-512 with VNNI: scores take byte products in one instruction.
 */
#include "avx512.h"
#include "kernels.h"

#define V_NAME avx512vnni

#include "body.h"
