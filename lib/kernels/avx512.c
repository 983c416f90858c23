// SPDX-License-Identifier: MIT
/*
 * Kernels for AVX-512.
 */
#include "avx512.h"
#include "kernels.h"

#define V_NAME avx512

#include "body.h"
