// SPDX-License-Identifier: MIT
/*
 * The checksum of a record: CRC-32C over its bytes, begun from a mix of who it is and where it
 * lies.
 */
#include "store.h"

#include <isa-l/crc.h>

/*
 * The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
 */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/*
 * With equal data the CRC of two different seeds always differs, so of two records that change
 * places one is noticed unless their seeds are the same: 2^-32.
 */
static uint32_t seed(uint64_t store_id, uint64_t record, uint32_t layer, uint32_t generation)
{
	uint64_t x = mix(store_id + 0x9e3779b97f4a7c15u);

	x = mix(x + record);
	x = mix(x + ((uint64_t)layer << 32 | generation));
	return (uint32_t)(x ^ x >> 32);
}

uint32_t kvs_record_crc(uint64_t store_id, uint64_t record, uint32_t layer, uint32_t generation,
			const void *data, size_t bytes)
{
	/* ISA-L reads through a pointer that is not const, and counts in int. */
	const size_t most = (size_t)1 << 30;
	unsigned char *at = (unsigned char *)(uintptr_t)data;
	uint32_t crc = seed(store_id, record, layer, generation);

	for (; bytes > most; at += most, bytes -= most)
		crc = crc32_iscsi(at, (int)most, crc);
	return crc32_iscsi(at, (int)bytes, crc);
}
