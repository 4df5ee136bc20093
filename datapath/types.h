/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Types and primitives for both builds of the per-packet code.
 *
 * clang compiles these headers for the kernel's BPF programs. cc compiles them for the simulator.
 * Both builds must make identical decisions; otherwise simulation results do not hold for Linux.
 * Three rules ensure this:
 *
 *   - Integers have fixed widths.
 *   - Nearly every function is inlined, because BPF cannot call into shared objects.
 *   - weir_load() is the only access to a frame. Each build implements it.
 *
 * In the kernel, weir_load() reads the linear part of an skb, which nearly always contains the
 * headers. For bytes outside it, weir_load() calls bpf_skb_load_bytes(), which does not modify the
 * packet. Natively, weir_load() is a bounds-checked copy.
 *
 * Worked example: weir_load(frame, 12, bytes, 2) reads the EtherType. weir_be16() of
 * 08 00 is 0x0800.
 *
 * Source: bpf-helpers(7), the kernel's Documentation/bpf/verifier.rst.
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
/* The kernel's, of linux/bpf.h: part of values of maps. */
struct bpf_spin_lock {
	u32 val;
};
#endif

#define WEIR_INLINE static inline __attribute__((always_inline))
/*
 * Marks a function that the kernel's verifier checks once, independently of its callers. The
 * verifier checks an inlined function again for each state of each caller. A marked function takes
 * at most five arguments, scalars or pointers. It must check pointers for null, and its callers see
 * its result as an unknown scalar.
 */
#ifdef __bpf__
#define WEIR_ONCE __attribute__((noinline))
#else
#define WEIR_ONCE WEIR_INLINE
#endif

#define WEIR_U32_MAX 0xffffffffU
#define WEIR_U64_MAX 0xffffffffffffffffULL

#ifdef __bpf__
/* In the kernel, a frame is the BPF context of an skb. */
typedef struct __sk_buff weir_frame;
/* Hides the value of a variable from the optimizer. */
#define WEIR_OPAQUE(value) asm volatile("" : "+r"(value))
/*
 * No value of a map or a global function's argument stays in a register across this line. To the
 * verifier such a value is unknown when it is read again. The paths that lead here are then alike, and
 * the verifier follows one of them instead of each.
 */
#define WEIR_MERGE_PATHS() asm volatile("" : : : "memory")
/* The verifier rejects larger offsets into the linear part. Headers end far below this offset. */
#define WEIR_LINEAR_MAX 0x3fff

/*
 * Copies `size` bytes, a compile-time constant, in words. `to` is aligned like a u64. The helper
 * bpf_skb_load_bytes() costs as much as all other processing of a header.
 */
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

/*
 * Copies `size` bytes at `offset` to `to`, which is aligned like a u64. Returns 0, or another value
 * if the frame is shorter.
 */
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
#define WEIR_MERGE_PATHS() ((void)0)

/* Copies `size` bytes at `offset`. Returns 0, or -1 without a copy if the frame is shorter. */
WEIR_INLINE int weir_load(weir_frame *frame, u32 offset, void *to, u32 size)
{
	if (offset > frame->size || size > frame->size - offset)
		return -1;
	__builtin_memcpy(to, frame->data + offset, size);
	return 0;
}
#endif

/* Alignment of buffers that weir_load() writes. */
#define WEIR_ALIGNED __attribute__((aligned(8)))

/* Reads a 16-bit integer in network byte order. */
WEIR_INLINE u16 weir_be16(const u8 *bytes)
{
	return (u16)((u16)bytes[0] << 8 | bytes[1]);
}

#endif
