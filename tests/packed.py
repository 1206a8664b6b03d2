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


def chances(seed, row, sample, count, repeat=0):
    """(count,) from 0 to 65535, one for each number of a message: 4 of a word, which are 64 numbers apart."""
    blocks = -(-count // 256)
    drawn = words(seed, row, sample, blocks * 64, repeat).reshape(blocks, 1, 64)
    return ((drawn >> np.uint64([[0], [16], [32], [48]])) & np.uint64(65535)).reshape(-1)[:count].astype(int)


def scale_of(block):
    """The smallest number of 17 bits of which all numbers are 127 times or less; 2⁻¹¹⁰ or more."""
    least = max(float(np.abs(block).max()) / 127, 2.0**-110)
    unit = np.ldexp(1.0, np.frexp(least)[1] - 17)
    scale = np.ceil(least / unit) * unit
    return scale if scale * 127 >= np.abs(block).max() else scale + unit


def rounded(messages, numbers, seed, row, sample, repeat=0):
    """What a server takes of a message: Q(x) = s ⌊x/s + u⌋."""
    numbers = np.asarray(numbers).astype(np.float32)
    u = chances(seed, row, sample, numbers.size, repeat)
    if messages == "int8":
        blocks = range(0, numbers.size, 256)
        s = np.concatenate([np.full(numbers[b : b + 256].size, scale_of(numbers[b : b + 256])) for b in blocks])
        counted = np.rint(numbers * np.float32(65536 / s)).astype(int)
        return s * np.clip((counted + u) // 65536, -127, 127)
    numbers = numbers.astype(float)
    _, exponent = np.frexp(numbers)
    s = np.ldexp(1.0, np.maximum(exponent, -125) - 8)  # of the last of 8 bits; below 2**-126 they are fewer
    return np.copysign(s * np.floor(np.abs(numbers) / s + u / 65536), numbers)  # bits are added to the absolute value


def sent(messages, numbers, seed, row, sample, repeat=0):
    """The same for any kind of messages."""
    if messages == "float32":
        return np.float32(numbers).astype(float)
    return rounded(messages, numbers, seed, row, sample, repeat)
