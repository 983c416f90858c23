// SPDX-License-Identifier: MIT
/* The checksum of a record: CRC-32C, and different for every place, layer, generation and store. */
#include "store.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 4096

static uint8_t data[BYTES];

static void setup(void)
{
	for (int i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 37 + (i >> 5));
}

/* The reflected polynomial of Castagnoli, bit by bit. */
static uint32_t crc_bitwise(uint32_t crc, const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return crc;
}

/* Over no bytes the checksum is the seed. */
START_TEST(is_crc32c)
{
	for (size_t bytes = 0; bytes <= BYTES; bytes += 1 + bytes / 3) {
		uint32_t seed = kvs_record_crc(1, 2, 3, 4, data, 0);

		ck_assert_uint_eq(kvs_record_crc(1, 2, 3, 4, data, bytes),
				  crc_bitwise(seed, data, bytes));
	}
	/* The check value that RFC 3720 implies for "123456789". */
	ck_assert_uint_eq(~crc_bitwise(~0u, (const uint8_t *)"123456789", 9), 0xe3069283u);
}
END_TEST

START_TEST(every_flipped_bit_shows)
{
	uint32_t whole = kvs_record_crc(1, 2, 3, 4, data, BYTES);

	for (int bit = 0; bit < BYTES * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_uint_ne(kvs_record_crc(1, 2, 3, 4, data, BYTES), whole);
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}
END_TEST

START_TEST(every_bit_of_the_identity_shows)
{
	uint32_t whole = kvs_record_crc(1, 2, 3, 4, data, BYTES);

	for (int bit = 0; bit < 64; bit++) {
		uint64_t x = (uint64_t)1 << bit;

		ck_assert_uint_ne(kvs_record_crc(1 ^ x, 2, 3, 4, data, BYTES), whole);
		ck_assert_uint_ne(kvs_record_crc(1, 2 ^ x, 3, 4, data, BYTES), whole);
		if (bit >= 32)
			continue;
		ck_assert_uint_ne(kvs_record_crc(1, 2, 3 ^ (uint32_t)x, 4, data, BYTES), whole);
		ck_assert_uint_ne(kvs_record_crc(1, 2, 3, 4 ^ (uint32_t)x, data, BYTES), whole);
	}
}
END_TEST

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/*
 * Equal data in 4,000 near-by identities: 2^-9 of a chance that any two agree, and fixed by the
 * seed.
 */
START_TEST(equal_data_differs_by_place)
{
	static uint32_t crcs[4000];
	int n = 0;

	for (uint32_t record = 0; record < 100; record++)
		for (uint32_t layer = 0; layer < 10; layer++)
			for (uint32_t generation = 0; generation < 4; generation++)
				crcs[n++] = kvs_record_crc(9, record, layer, generation, data, 64);
	qsort(crcs, 4000, sizeof(crcs[0]), compare);
	for (int i = 1; i < n; i++)
		ck_assert_uint_ne(crcs[i], crcs[i - 1]);
}
END_TEST

Suite *suite_crc(void)
{
	Suite *suite = suite_create("crc");
	TCase *tc = tcase_create("crc");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, is_crc32c);
	tcase_add_test(tc, every_flipped_bit_shows);
	tcase_add_test(tc, every_bit_of_the_identity_shows);
	tcase_add_test(tc, equal_data_differs_by_place);
	suite_add_tcase(suite, tc);
	return suite;
}
