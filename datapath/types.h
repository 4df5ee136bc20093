/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The few words in which the per-packet code is written, for both compilers.
 *
 * Problem: the same headers are compiled by clang for the kernel's BPF machine and by cc for the
 * simulator, and a difference between the two would make the simulator lie.
 * Approach: fixed-width integers only, nearly every function inlined (BPF has no calls into shared objects), and
 * one way to read a frame, `weir_load`, that each body provides: in the kernel it reads the linear part of an
 * skb, where headers nearly always are, and by the helper bpf_skb_load_bytes what lies outside, which never
 * changes the packet; natively it is a bounds-checked copy.
 */
#ifndef WEIR_TYPES_H
#define WEIR_TYPES_H

#ifdef __bpf__
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
#else
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

#define WEIR_INLINE static inline __attribute__((always_inline))
/*
 * A function that the kernel's verifier looks at once, whatever its callers know. Inlined, what is called in several ways multiplies the
 * states that it goes through. It takes five arguments, numbers and pointers; it must ask whether a pointer is null, and gets it back
 * as an unknown number.
 */
#ifdef __bpf__
#define WEIR_ONCE __attribute__((noinline))
#else
#define WEIR_ONCE WEIR_INLINE
#endif

#define WEIR_U32_MAX 0xffffffffU
#define WEIR_U64_MAX 0xffffffffffffffffULL

#ifdef __bpf__
/* A frame is the kernel's own view of an skb. */
typedef struct __sk_buff weir_frame;
/* The compiler does not know what `value` was. */
#define WEIR_OPAQUE(value) asm volatile("" : "+r"(value))
/* The verifier takes no larger offset into the linear part; headers end far before. */
#define WEIR_LINEAR_MAX 0x3fff

/* Copies a constant `size`; `to` is aligned like a u64. Words, since the helper costs as much as a whole header's use. */
WEIR_INLINE void weir_copy(u8 *to, const u8 *from, u32 size)
{
	u32 i = 0;

	for (; i + 8 <= size; i += 8)
		*(u64 *)(to + i) = *(const u64 *)(from + i);
	if (i + 4 <= size) {
		*(u32 *)(to + i) = *(const u32 *)(from + i);
		i += 4;
	}
	if (i + 2 <= size) {
		*(u16 *)(to + i) = *(const u16 *)(from + i);
		i += 2;
	}
	if (i < size)
		to[i] = from[i];
}

/* Copies `size` bytes at `offset` to what is aligned like a u64; 0, or not when the frame ends before. */
WEIR_INLINE int weir_load(weir_frame *frame, u32 offset, void *to, u32 size)
{
	if (offset <= WEIR_LINEAR_MAX) {
		const u8 *from = (const u8 *)(long)frame->data + offset;

		if (from + size <= (const u8 *)(long)frame->data_end) {
			weir_copy(to, from, size);
			return 0;
		}
	}
	return (int)bpf_skb_load_bytes(frame, offset, to, size);
}
#else
typedef const struct weir_bytes {
	const u8 *data;
	u32 size;
} weir_frame;

#define WEIR_OPAQUE(value) ((void)(value))

/* Copies `size` bytes at `offset`; 0, or -1 and nothing copied when the frame ends before. */
WEIR_INLINE int weir_load(weir_frame *frame, u32 offset, void *to, u32 size)
{
	if (offset > frame->size || size > frame->size - offset)
		return -1;
	__builtin_memcpy(to, frame->data + offset, size);
	return 0;
}
#endif

/* For bytes that weir_load copies to. */
#define WEIR_ALIGNED __attribute__((aligned(8)))

/* A 16-bit number in network order. */
WEIR_INLINE u16 weir_be16(const u8 *bytes)
{
	return (u16)((u16)bytes[0] << 8 | bytes[1]);
}

#endif
