/* SPDX-License-Identifier: MIT */
/*
 * One kernel set, over the vector words of the file that includes this:
 *   v_load v_store v_set v_add v_sub v_mul, v_fma (a * b + c), v_max v_min (b where unordered),
 *   v_load_half v_store_half (binary16, to nearest even), v_round (to nearest even), v_scale_from
 *   (v * 2^n, n + 127 in the low bits of the second operand; 0 where x < limit), v_differ (1 if any
 *   lane does), v_reach (bit i: a >= b in lane i), v_sum v_largest (of the lanes), v_quad_set (one
 *   float for each four lanes), v_quad_load (the same four floats for each), v_quad_max v_quad_sum
 *   (over each four lanes, in all four), v_sums (lane i: the sum of vector i), v_transpose (V_WIDTH
 *   vectors),
 * MATRIX_ROWS x MATRIX_VECTORS accumulators that fit the registers, and, where it has them, the
 * words of body_score_q4.h and those of other products than f32's (M_STEP, body_prefill.h).
 *
 * Every result is a fixed sequence of operations on its own inputs: how calls are cut changes no
 * bit.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define V_JOIN_(a, b) a##b
#define V_JOIN(a, b) V_JOIN_(a, b)

#include "body_math.h"
#include "body_decode.h"
#include "body_prefill.h"
#include "body_score.h"

#define V_STRING_(x) #x
#define V_STRING(x) V_STRING_(x)

const struct kvs_kernels V_JOIN(kvs_kernels_, V_NAME) = {
	.name = V_STRING(V_NAME),
	.attend = attend,
	.logits = logits,
	.prefill = prefill,
	.to_f16 = to_f16,
	.from_f16 = from_f16,
	.exp_sum = exp_sum,
	.max = largest,
	.reaching = reaching,
	.project = project,
	.to_q8 = to_q8,
	.combine = combine,
	.dot_f16 = dot_f16,
	.score_f16 = score_f16,
	.score_q4 = score_q4,
};
