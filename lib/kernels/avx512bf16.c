// SPDX-License-Identifier: MIT
/*
 * Kernels for AVX-512 with BF16 and VNNI: those of AVX-512, but prefill rounds queries, keys,
 * weights and values to bfloat16 and multiplies in pairs with f32 sums, and scores take byte
 * products in one instruction.
 */
#include "avx512.h"
#include "kernels.h"

#define V_NAME avx512bf16
#define M_STEP 2
#define M_ROUNDS 1

typedef uint16_t m_word;
typedef __m512bh m_vector;

V_INLINE m_vector m_load(const m_word *p)
{
	return (m_vector)_mm512_loadu_si512(p);
}

V_INLINE m_vector m_set(const m_word *p)
{
	int32_t pair;

	memcpy(&pair, p, sizeof(pair));
	return (m_vector)_mm512_set1_epi32(pair);
}

V_INLINE v_f32 m_fma(m_vector a, m_vector b, v_f32 c)
{
	return _mm512_dpbf16_ps(c, a, b);
}

V_INLINE void m_put(m_word *p, v_f32 v)
{
	_mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(v));
}

/* Two rows, element by element side by side. */
V_INLINE void m_put_rows(m_word *p, const v_f32 *rows)
{
	const __m512i order =
		_mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
				 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

	_mm512_storeu_si512(
		p, _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(rows[1], rows[0])));
}

#include "body.h"
