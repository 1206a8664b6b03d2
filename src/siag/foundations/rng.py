"""Random numbers for compiled code: every sample has its own, and nobody else's.

Worker i's k-th sample is a function of (seed, repeat, i, k) alone: before each sample the generator is set anew from
those four. So runs do not depend on threads or on the order of arrivals, two methods can be compared on the same
samples, and a worker that comes back goes on where it was. The price is one hash per sample.

The generator is SplitMix: a counter that goes on by an odd increment, and a bijection of its value. No number waits for
the one before it, so the processor draws several at a time in its vector registers. Start and increment are both
hashed from the four, 95 bits in all, so two samples do not share numbers.

Written by hand because nothing at hand does it: NumPy's generators cannot be set anew in a few nanoseconds, and would
need a state per worker. `make bench` compares the cost of a normal number.

References:
    G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix).
    J. Doornik, "An improved ziggurat method to generate normal random samples", 2005.
    G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS 2000.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from siag.foundations.dispatch import compiled, rarely
from siag.foundations.types import Floats, Rng

SAMPLES = 0  # what a key is for: the data the workers draw …
ACTIVITY = 1  # … the pattern of their activity …
CLOCK = 2  # … or the times they take

_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

GOLDEN = np.uint64(_GOLDEN)
MIX_A, MIX_B = np.uint64(_MIX[0]), np.uint64(_MIX[1])
ONE, U11, U27, U30, U31 = (np.uint64(k) for k in (1, 11, 27, 30, 31))
PAIRS = np.uint64(0x5555555555555555)  # the lower bit of every pair
LAYERS = 2048  # one candidate in 420 falls outside, and the table still fits into the cache
LAYER = np.uint64(LAYERS - 1)
BLOCK = 24  # normals drawn at a time: three vectors of eight; shorter loops are not made vector instructions
TO_UNIT = 2.0**-53
TO_SIGNED = 2.0**-52
RATIO_BITS = 12
RATIO_UP = np.uint64(63 - RATIO_BITS)


def _layers(count: int, edge: float, area: float) -> NDArray[np.uint64]:
    """(count + 1,) the ziggurat: `count` layers of equal `area` under exp(−x²/2), the lowest from `edge` to infinity.

    To look up one word costs half of looking up two, so a word has both that a layer needs. It is 2⁻⁵² x_k in double
    precision, whose lowest 13 bits are 2¹² x_{k+1}/x_k instead, rounded down; x_k is what this makes of it.
    """
    x = np.zeros(count + 1)
    height = math.exp(-0.5 * edge * edge)
    x[0], x[1] = area / height, edge
    for layer in range(2, count):
        height += area / x[layer - 1]
        x[layer] = math.sqrt(-2.0 * math.log(height))
    spare = np.uint64(RATIO_BITS + 1)
    words: NDArray[np.uint64] = (x * TO_SIGNED).view(np.uint64) >> spare << spare
    words[:-1] += (2.0**RATIO_BITS * x[1:] / x[:-1]).astype(np.uint64)
    return words


SQUEEZE = 0.18  # 1 − 0.18 c²x⁴ is below the acceptance rate exp(x²/2 + d − dv + d log v) for every d ≥ 7/6 and x
EDGE = 4.216370409511898  # the only edge for which the layers end at the top; Doornik 2005 says how to find it
TABLE = _layers(LAYERS, EDGE, 0.0006126065176240442)
X = TABLE.view(np.float64) / TO_SIGNED
HEIGHT = np.array([math.exp(-0.5 * x * x) for x in X.tolist()])


def hashed(*parts: int, salt: int = 0) -> int:
    """64 bits that follow from these numbers, and show no trace of them."""
    word = salt
    for part in parts:
        word = (word + (part + 1) * _GOLDEN) & _WORD
        word = ((word ^ (word >> 30)) * _MIX[0]) & _WORD
        word = ((word ^ (word >> 27)) * _MIX[1]) & _WORD
        word ^= word >> 31
    return word


def key(seed: int, repeat: int, purpose: int) -> Rng:
    """(2,) the 128 bits from which all randomness of one purpose in one repeat derives."""
    return np.array([hashed(seed, repeat, purpose, salt=salt) for salt in (1, 2)], np.uint64)


def blank() -> Rng:
    """(2,) room for a generator, the counter and its increment, to be set by `rewind`."""
    return np.zeros(2, np.uint64)


def fresh(seed: int, repeat: int, purpose: int) -> Rng:
    """A generator of its own for one purpose in one repeat."""
    rng = blank()
    rewind(rng, key(seed, repeat, purpose), 0, 0)
    return rng


@compiled
def scramble(z: np.uint64) -> np.uint64:
    """splitmix64's finaliser: a bijection of 64-bit words that leaves no visible structure."""
    z = (z ^ (z >> U30)) * MIX_A
    z = (z ^ (z >> U27)) * MIX_B
    return np.uint64(z ^ (z >> U31))


@compiled
def increment(z: np.uint64) -> np.uint64:
    """An odd number, each pair of whose bits is 01 or 10.

    SplitMix wants an increment with at least 24 changes from bit to bit, so that the counter does not go on too
    regularly; this has 32 or more, and 31 bits of z.
    """
    x = (z | ONE) & PAIRS
    return np.uint64(x | ((x ^ PAIRS) << ONE))


@compiled
def rewind(rng: Rng, key: Rng, i: int, k: int) -> None:
    """Set the generator to the start of worker i's k-th sample."""
    worker, sample = np.uint64(i) * GOLDEN, np.uint64(k) * GOLDEN
    rng[0] = scramble(scramble(key[0] + worker) + sample)
    rng[1] = increment(scramble(scramble(key[1] + worker) + sample))


@compiled
def bits(rng: Rng) -> np.uint64:
    """64 random bits: one step of SplitMix."""
    rng[0] += rng[1]
    return scramble(rng[0])


@compiled
def uniform(rng: Rng) -> float:
    """A number from [0, 1), a multiple of 2⁻⁵³."""
    return float(np.int64(bits(rng) >> U11) * TO_UNIT)


@compiled
def below(rng: Rng, bound: int) -> int:
    """A whole number from 0 to bound − 1; each has its probability to within 2⁻⁵³."""
    return int(uniform(rng) * bound)


@compiled
def candidate(word: np.uint64) -> tuple[float, bool]:
    """A number from a layer of the ziggurat, and whether it is surely in the inner rectangle; then it is normal.

    The layer is in the lowest bits of the word, the place in it in the upper ones.
    """
    entry = TABLE[np.uint64(word & LAYER)]
    place = np.int64(word)
    within = np.uint64(abs(place)) < np.uint64(entry << RATIO_UP)
    return float((place >> 11) * np.uint64(entry).view(np.float64)), bool(within)


@rarely
def _beyond(rng: Rng, word: np.uint64) -> float:
    """The rare part of the ziggurat: the candidate of `word` is not surely in its layer's inner rectangle."""
    while True:
        x, _ = candidate(word)
        layer = int(word & LAYER)
        inner = X[layer + 1]
        if abs(x) < inner:
            return float(x)
        if layer == 0:
            while True:
                beyond = -math.log(1.0 - uniform(rng)) / inner
                if -2.0 * math.log(1.0 - uniform(rng)) >= beyond * beyond:
                    return float(inner + beyond if x > 0.0 else -inner - beyond)
        low, high = HEIGHT[layer], HEIGHT[layer + 1]
        if low + uniform(rng) * (high - low) < math.exp(-0.5 * x * x):
            return float(x)
        word = bits(rng)


@compiled
def normal(rng: Rng) -> float:
    """A standard normal number."""
    word = bits(rng)
    x, within = candidate(word)
    return x if within else _beyond(rng, word)


@compiled
def normals(rng: Rng, out: Floats) -> None:
    """Fill `out` with standard normal numbers, in blocks.

    Word j of the next words makes number j of the block. Then come the few that need a second look; what they draw
    comes from the words after the block's. An array of whole blocks is the fastest to fill: see `whole_blocks`.
    """
    for first in range(0, out.size, BLOCK):
        block, origin = out[first : first + BLOCK], rng[0]
        outside = _propose(rng, block, BLOCK) if block.size == BLOCK else _propose_few(rng, block)
        if outside > 0:
            _mend(rng, origin, block)


def whole_blocks(count: int) -> int:
    """The least number of normals that is a whole number of blocks and at least `count`."""
    return -(-count // BLOCK) * BLOCK


@compiled
def _propose(rng: Rng, block: Floats, count: int) -> int:
    """Make all candidates of a block; return how many are NaN now, because they need a second look.

    A loop without branches: if the compiler knows the count, it turns it into vector instructions, and nothing else.
    """
    origin, step, outside = rng[0], rng[1], 0
    for j in range(count):
        x, within = candidate(scramble(origin + np.uint64(j + 1) * step))
        block[j] = x if within else np.nan
        outside += 1 - within
    rng[0] = origin + np.uint64(count) * step
    return outside


@rarely
def _propose_few(rng: Rng, block: Floats) -> int:
    """The same for what is left at the end, which is no whole block."""
    return _propose(rng, block, block.size)


@rarely
def _mend(rng: Rng, origin: np.uint64, block: Floats) -> None:
    """Give the candidates that fell outside, now NaN, their second look."""
    for j in range(block.size):
        if np.isnan(block[j]):
            block[j] = _beyond(rng, scramble(origin + np.uint64(j + 1) * rng[1]))


@compiled
def chi_square(rng: Rng, k: int) -> float:
    """A χ² number with k ≥ 0 degrees of freedom, at a cost that does not grow with k."""
    x = normal(rng)
    if k < 3:
        if k == 2:
            y = normal(rng)
            return x * x + y * y
        return x * x * k
    d = 0.5 * k - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    squeeze = SQUEEZE * c * c
    while True:
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u = 1.0 - uniform(rng)
            xx = x * x
            if u < 1.0 - squeeze * xx * xx or math.log(u) < 0.5 * xx + d - d * v + d * math.log(v):
                return 2.0 * d * v
        x = normal(rng)
