"""Numbers in one or two bytes each, rounded up or down at random, so that the mean is what was to be sent.

    Q(x) = s ⌊x/s + u⌋,  u uniform on [0, 1):    E Q(x) = x,  Var Q(x) = s² f (1 − f),  f = x/s − ⌊x/s⌋

`Codes` has s = max |x|/127 for each block of 256 numbers, as a float32, and ⌊x/s + u⌋ as a byte of its own for each
number: 1.016 bytes a number, 4 + d bytes for d ≤ 256. s is rounded up to 17 bits, so that all Q(x) are float32 numbers.
`Halves` has the upper 16 bits of a float32, s being the value of the last of them. Both round to the nearest float32
first, and u has 16 bits: so means are right to about 2⁻²³ of the largest number of a block, as float32 would have it.
u comes from a generator that the caller has set, so the same message is the same bytes each time.

A number that is NaN or infinite never becomes a finite one: `Halves` keeps it, and `Codes` makes all of its block NaN.

Bytes, not numbers, are read and written, so they may lie anywhere in memory, and mean the same on every machine.

References:
    S. Gupta, A. Agrawal, K. Gopalakrishnan, P. Narayanan, "Deep learning with limited numerical precision", ICML 2015.
    D. Alistarh, D. Grubic, J. Li, R. Tomioka, M. Vojnovic, "QSGD", NeurIPS 2017.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from siag.foundations.dispatch import compiled, part, verb
from siag.foundations.rng import GOLDEN, increment, rewind, scramble
from siag.foundations.types import Bytes, Floats, Integers, Record, Rng

BLOCK = 256  # numbers that have a scale in common
SCALE = 4  # bytes of a scale
LEVELS = 127.0  # the largest code

QUARTER = BLOCK // 4
ONES = 65536.0  # in which u is counted
SMALLEST = np.float32(2.0**-110)  # of all scales: 65536/s is a float32, too
MAGNITUDE = np.int32(2**31 - 1)  # all bits of a float32 but its sign; as whole numbers they are in the same order
U16, U32, U48, WORD = np.uint64(16), np.uint64(32), np.uint64(48), np.uint64(0xFFFF)
S8, S16, S24, ZERO, ONE, LOW8 = (np.uint32(k) for k in (8, 16, 24, 0, 1, 0xFF))
LAST = np.uint32(0x7F)  # the bits of a float32 that no scale has
LARGEST = np.float32(np.finfo(np.float32).max / LEVELS)  # of all scales
I32 = np.int32  # or Numba makes 64 bits of every sum, which takes twice the time
SHIFT, TOP, BOTTOM, BYTE = np.int32(16), np.int32(127), np.int32(-127), np.int32(0xFF)
EXPONENT, FRACTION, QUIET = np.uint32(0x7F800000), np.uint32(0x7FFFFF), np.uint32(0x40)  # of a float32


class Codes(NamedTuple):
    """How to pack in one byte a number, and room to do it."""

    before: int  # numbers of the first block that are not in the message; 0, but for a slice of one
    block: Floats  # (256,) the numbers of a block, of float32
    noise: Integers  # (256,) 16 random bits for each


class Halves(NamedTuple):
    """How to pack in two bytes a number, and room to do it."""

    noise: Integers  # (256,) 16 random bits for each


def codes(before: int = 0) -> Codes:
    """One byte a number."""
    block: Any = np.zeros(BLOCK, np.float32)
    return Codes(before, block, _room())


def halves() -> Halves:
    """Two bytes a number."""
    return Halves(_room())


def _room() -> Any:
    return np.zeros(BLOCK, np.int32)


@verb
def pack(way: Record, numbers: Floats, content: Bytes, rng: Rng) -> None:
    """Round all numbers of a message at random, and write them to `content`."""


@verb
def unpack(way: Record, content: Bytes, numbers: Floats, first: int, last: int) -> None:
    """Write the numbers from `first` to `last` of a message, as they are to be taken, to their places in `numbers`."""


@compiled
def branch(rng: Rng, out: Rng) -> None:
    """Set `out` to a generator for rounding, given that of a sample, which nothing was drawn from yet."""
    out[0] = scramble(rng[0] + GOLDEN)
    out[1] = increment(scramble(rng[1] + GOLDEN))


@part
def draw_noise(rng: Rng, noise: Integers) -> None:
    """16 random bits for each number of a block: four of a word, which go far apart, so that it is done in vectors."""
    origin, step = rng[0], rng[1]
    for j in range(QUARTER):
        word = scramble(origin + np.uint64(j) * step)
        noise[j] = np.int32(word & WORD)
        noise[j + QUARTER] = np.int32((word >> U16) & WORD)
        noise[j + 2 * QUARTER] = np.int32((word >> U32) & WORD)
        noise[j + 3 * QUARTER] = np.int32(word >> U48)
    rng[0] = origin + np.uint64(QUARTER) * step


@part
def largest_of(bits: Integers) -> np.float32:
    """The largest |x| of the numbers with these bits; infinite or NaN if one of them is."""
    top = np.int32(0)
    for j in range(bits.size):
        top = max(top, I32(bits[j] & MAGNITUDE))
    return np.int32(top).view(np.float32)


@part
def scale_for(largest: np.float32) -> np.float32:
    """The smallest scale of which `largest` is 127 times or less; NaN if there is none.

    It has 17 bits, so that a scale times a code is a float32, too.
    """
    scale = np.float32(largest / LEVELS)
    if scale < SMALLEST:
        return SMALLEST
    bits = np.float32(scale).view(np.uint32)
    more = LAST if np.float64(scale) * LEVELS >= largest else LAST + ONE
    scale = np.uint32((bits + more) & ~LAST).view(np.float32)
    return scale if scale <= LARGEST else np.float32(np.nan)


@part
def write_scale(content: Bytes, at: int, scale: np.float32) -> None:
    """Four bytes, the lowest first."""
    bits = np.float32(scale).view(np.uint32)
    content[at] = np.uint8(bits & LOW8)
    content[at + 1] = np.uint8((bits >> S8) & LOW8)
    content[at + 2] = np.uint8((bits >> S16) & LOW8)
    content[at + 3] = np.uint8(bits >> S24)


@part
def read_scale(content: Bytes, at: int) -> np.float32:
    """The same read."""
    low = np.uint32(content[at]) | np.uint32(content[at + 1]) << S8
    high = np.uint32(content[at + 2]) << S16 | np.uint32(content[at + 3]) << S24
    return np.uint32(low | high).view(np.float32)


@compiled
def pack_in_codes(way: Codes, numbers: Floats, content: Bytes, rng: Rng) -> None:
    """Block by block: find the scale, then write codes."""
    _, block, noise = way
    blocks = (numbers.size + BLOCK - 1) // BLOCK
    bits: Any = block.view(np.int32)
    for b in range(blocks):
        first = b * BLOCK
        size = min(BLOCK, numbers.size - first)
        for j in range(size):
            block[j] = numbers[first + j]
        for j in range(size, BLOCK):
            block[j] = 0.0
        scale = scale_for(largest_of(bits))
        write_scale(content, SCALE * b, scale)
        draw_noise(rng, noise)
        out = content[SCALE * blocks + first : SCALE * blocks + first + size]
        if scale > 0.0:
            inverse = np.float32(ONES / np.float64(scale))
            for j in range(size):
                code = I32(I32(I32(np.rint(block[j] * inverse)) + noise[j]) >> SHIFT)
                code = TOP if code > TOP else code  # rounding errors do not make 127 a 128
                out[j] = np.uint8(I32(BOTTOM if code < BOTTOM else code) & BYTE)
        else:  # NaN, which says what all numbers are
            for j in range(size):
                out[j] = np.uint8(0)


@compiled
def unpack_codes(before: int, content: Bytes, numbers: Floats, first: int, last: int) -> None:
    """Block by block."""
    own = content[content.size - numbers.size :]
    while first < last:
        b = (before + first) // BLOCK
        until = min(last, (b + 1) * BLOCK - before)
        scale = read_scale(content, SCALE * b)
        some, out = own[first:until], numbers[first:until]  # whose indices begin at 0: so it is done in vectors
        for j in range(out.size):
            out[j] = scale * np.float32(np.int8(some[j]))
        first = until


@compiled
def pack_in_halves(noise: Integers, numbers: Floats, content: Bytes, rng: Rng) -> None:
    """Add random bits below the last that is kept, and cut them off."""
    for first in range(0, numbers.size, BLOCK):
        draw_noise(rng, noise)
        some = numbers[first : first + BLOCK]
        out = content[2 * first : 2 * first + 2 * some.size]
        for j in range(some.size):
            bits = np.float32(some[j]).view(np.uint32)
            odd = (bits & EXPONENT) == EXPONENT  # infinite, or NaN, which may have none of its bits in the upper half
            kept = bits >> S16 if odd else np.uint32(bits + np.uint32(noise[j])) >> S16
            kept = np.uint32(kept | QUIET) if odd and (bits & FRACTION) != ZERO else np.uint32(kept)
            out[2 * j] = np.uint8(kept & LOW8)
            out[2 * j + 1] = np.uint8(kept >> S8)


@compiled
def unpack_halves(content: Bytes, numbers: Floats, first: int, last: int) -> None:
    """Number by number."""
    some, out = content[2 * first : 2 * last], numbers[first:last]
    for j in range(out.size):
        low, high = np.uint32(some[2 * j]) << S16, np.uint32(some[2 * j + 1]) << S24
        out[j] = np.uint32(low | high).view(np.float32)


# Meanings are plain functions, so these call the machine code where plain Python packs.


@pack.when(Codes)
def pack_codes(way: Codes, numbers: Floats, content: Bytes, rng: Rng) -> None:
    """A scale for each block, and a byte for each number."""
    pack_in_codes(way, numbers, content, rng)


@unpack.when(Codes)
def numbers_of_codes(way: Codes, content: Bytes, numbers: Floats, first: int, last: int) -> None:
    """Codes times scales."""
    unpack_codes(way.before, content, numbers, first, last)


@pack.when(Halves)
def pack_halves(way: Halves, numbers: Floats, content: Bytes, rng: Rng) -> None:
    """The upper half of each float32."""
    pack_in_halves(way.noise, numbers, content, rng)


@unpack.when(Halves)
def numbers_of_halves(way: Halves, content: Bytes, numbers: Floats, first: int, last: int) -> None:
    """The lower half being 0."""
    unpack_halves(content, numbers, first, last)


@compiled
def pack_message(way: Record, numbers: Floats, content: Bytes, key: Rng, i: int, k: int, rng: Rng) -> None:
    """Pack worker i's k-th message: the same numbers are the same bytes each time; `rng` is scratch."""
    rewind(rng, key, i, k)
    branch(rng, rng)
    pack(way, numbers, content, rng)
