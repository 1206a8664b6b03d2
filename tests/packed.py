"""Packed messages in plain NumPy and whole numbers of Python: the twin of `siag.foundations.packing`."""

import numpy as np

from siag.foundations.rng import SAMPLES, key

WORD, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def mix(z):
    """SplitMix's finaliser."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def odd(z):
    """An increment: 01 or 10 for each pair of bits, 01 for the last."""
    pairs = 0x5555555555555555
    low = (z | 1) & pairs
    return low | ((low ^ pairs) << 1)


def words(seed, row, sample, count, repeat=0):
    """The random words by which a worker's message is rounded."""
    both = (int(half) + row * GOLDEN for half in key(seed, repeat, SAMPLES))
    start, step = (mix((mix(half & WORD) + sample * GOLDEN) & WORD) for half in both)
    start, step = mix((start + GOLDEN) & WORD), odd(mix((odd(step) + GOLDEN) & WORD))
    return np.array([mix((start + j * step) & WORD) for j in range(count)], np.uint64)


def chances(messages, seed, row, sample, count, repeat=0):
    """(count,) from [0, 1), one for each number of a message: 2 or 4 of a word, each word's 128 or 64 numbers apart."""
    parts = 2 if messages == "int8" else 4
    each, width = 256 // parts, 64 // parts
    blocks = -(-count // 256)
    drawn = words(seed, row, sample, blocks * each, repeat).reshape(blocks, 1, each)
    shifts = np.arange(parts, dtype=np.uint64)[:, None] * np.uint64(width)
    found = ((drawn >> shifts) & np.uint64(2**width - 1)).reshape(-1)[:count]
    if messages == "int8":  # 32 bits with a sign, and a half
        return (found.astype(np.uint32).view(np.int32) * 2.0**-32) + 0.5
    return found / 2.0**16


def scale_of(block):
    """The smallest number of 17 bits, or multiple of 2⁻¹⁴², of which all numbers are 127 times or less."""
    least = np.abs(block).max() / 127
    unit = np.ldexp(1.0, max(np.frexp(least)[1], -125) - 17)
    scale = np.ceil(least / unit) * unit
    return scale if scale * 127 >= np.abs(block).max() else scale + unit


def rounded(messages, numbers, seed, row, sample, repeat=0):
    """What a server takes of a message: Q(x) = s ⌊x/s + u⌋."""
    numbers = np.asarray(numbers, float)
    u = chances(messages, seed, row, sample, numbers.size, repeat)
    if messages == "int8":
        blocks = range(0, numbers.size, 256)
        s = np.concatenate([np.full(numbers[b : b + 256].size, scale_of(numbers[b : b + 256]), float) for b in blocks])
    else:
        numbers = numbers.astype(np.float32).astype(float)
        _, exponent = np.frexp(numbers)
        s = np.ldexp(1.0, np.maximum(exponent, -125) - 8)  # of the last of 8 bits; below 2**-126 they are fewer
    with np.errstate(invalid="ignore"):
        if messages == "int8":
            return np.where(s > 0, s * np.floor(np.divide(numbers, s, where=s > 0, out=np.zeros_like(s)) + u), 0.0)
        return np.copysign(s * np.floor(np.abs(numbers) / s + u), numbers)  # bits are added to the absolute value


def sent(messages, numbers, seed, row, sample, repeat=0):
    """The same for any kind of messages."""
    if messages == "float32":
        return np.float32(numbers).astype(float)
    return rounded(messages, numbers, seed, row, sample, repeat)
