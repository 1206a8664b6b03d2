"""The generator against a twin written in whole numbers of any size, bit for bit."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siag.foundations import rng as source
from siag.foundations.rng import (
    ACTIVITY,
    SAMPLES,
    below,
    bits,
    blank,
    fresh,
    increment,
    key,
    normal,
    normals,
    rewind,
    scramble,
    uniform,
)

WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15

seeds = st.integers(0, WORD)
repeats = st.integers(0, 10**6)
purposes = st.sampled_from([SAMPLES, ACTIVITY])
indices = st.integers(0, 2**40)
quick = settings(deadline=None, max_examples=60)


def mixed(z):
    """splitmix64's finaliser, as its authors print it."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def hashed(seed, repeat, purpose):
    words = []
    for word in (1, 2):
        for part in (seed, repeat, purpose):
            word = mixed((word + (part + 1) * GOLDEN) & WORD)  # noqa: PLW2901  # a chain of hashes
        words.append(word)
    return words


def odd(z):
    """Pairs of bits 01 or 10, the last 01."""
    pairs = "".join("01" if bit == "1" else "10" for bit in f"{z:064b}"[1::2])
    return int(pairs[:-2] + "01", 2)


def rewound(words, i, k):
    a, b = (mixed((mixed((word + i * GOLDEN) & WORD) + k * GOLDEN) & WORD) for word in words)
    return [a, odd(b)]


class Twin:
    """SplitMix, as its authors print it."""

    def __init__(self, state):
        self.state = list(state)

    def bits(self):
        self.state[0] = (self.state[0] + self.state[1]) & WORD
        return mixed(self.state[0])

    def uniform(self):
        return (self.bits() >> 11) / 2**53

    def normal(self, word=None):
        """The ziggurat with the layers of the source; their shape is tested on its own."""
        while True:
            word = self.bits() if word is None else word
            layer = word % source.LAYERS
            outer, inner = source.X[layer], source.X[layer + 1]
            u = ((word >> 11) - 2**53 * (word >> 63)) / 2**52  # the upper 53 bits as a signed fraction
            x = u * outer
            if abs(x) < inner:
                return x
            if layer == 0:
                return math.copysign(self.tail(), u)
            low, high = math.exp(-0.5 * (outer * outer - x * x)), math.exp(-0.5 * (inner * inner - x * x))
            if low + self.uniform() * (high - low) < 1.0:
                return x
            word = None

    def normals(self, count):
        """One block after the other: first all its words, then what they make."""
        made = []
        while len(made) < count:
            words = [self.bits() for _ in range(min(source.BLOCK, count - len(made)))]
            made += [self.normal(word) for word in words]
        return made

    def tail(self):
        while True:
            x = -math.log(1.0 - self.uniform()) / source.X[1]
            if -2.0 * math.log(1.0 - self.uniform()) >= x * x:
                return source.X[1] + x


def test_the_twin_and_the_generator_give_the_published_first_words_of_splitmix():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    state, twin = np.array([1234567, GOLDEN], np.uint64), Twin([1234567, GOLDEN])
    assert [int(bits(state)) for _ in published] == published
    assert [twin.bits() for _ in published] == published


@quick
@given(st.integers(0, WORD))
def test_an_increment_is_odd_and_changes_from_bit_to_bit(z):
    made = int(increment(np.uint64(z)))
    assert made == odd(z)
    assert made % 2 == 1
    assert (made ^ (made >> 1)).bit_count() >= 24  # what SplitMix's authors ask for


def test_scramble_gives_the_published_first_word_of_splitmix64():
    assert int(scramble(np.uint64(GOLDEN))) == 0xE220A8397B1DCDAF


@quick
@given(st.integers(0, WORD))
def test_scramble_equals_its_twin(z):
    assert int(scramble(np.uint64(z))) == mixed(z)


@quick
@given(seeds, repeats, purposes)
def test_a_key_equals_its_twin(seed, repeat, purpose):
    assert key(seed, repeat, purpose).tolist() == hashed(seed, repeat, purpose)


@quick
@given(seeds, repeats, purposes, indices, indices)
def test_rewind_equals_its_twin(seed, repeat, purpose, i, k):
    state = blank()
    rewind(state, key(seed, repeat, purpose), i, k)
    assert state.tolist() == rewound(hashed(seed, repeat, purpose), i, k)


def test_a_fresh_generator_starts_at_the_first_sample_of_the_first_worker():
    assert fresh(5, 6, ACTIVITY).tolist() == rewound(hashed(5, 6, ACTIVITY), 0, 0)


@quick
@given(seeds)
def test_bits_and_uniforms_equal_their_twins(seed):
    state = fresh(seed, 0, SAMPLES)
    twin = Twin(state.tolist())
    for _ in range(20):
        assert int(bits(state)) == twin.bits()
        assert uniform(state) == twin.uniform()
    assert state.tolist() == twin.state


def test_normals_equal_their_twin_rare_branches_included():
    count = 100_001
    state = fresh(1, 0, SAMPLES)
    twin = Twin(state.tolist())
    drawn = np.empty(count)
    normals(state, drawn)
    # log and exp may differ in the last bit between the two, nothing else may.
    np.testing.assert_allclose(drawn, twin.normals(count), rtol=1e-14, atol=0)
    assert np.abs(drawn).max() > source.EDGE  # else the tail's branch was not met
    assert state.tolist() == twin.state


@pytest.mark.parametrize("count", [0, 1, 3, 16, 23, 24, 25, 48, 65, 200])
def test_normals_of_any_count_equal_their_twin(count):
    state = fresh(2, 0, SAMPLES)
    twin, drawn = Twin(state.tolist()), np.empty(count)
    for _ in range(20):
        normals(state, drawn)
        np.testing.assert_allclose(drawn, twin.normals(count), rtol=1e-14, atol=0)
    assert state.tolist() == twin.state


@quick
@given(seeds)
def test_one_normal_is_a_block_of_one(seed):
    one, other, drawn = fresh(seed, 0, SAMPLES), fresh(seed, 0, SAMPLES), np.empty(1)
    for _ in range(30):
        normals(one, drawn)
        assert normal(other) == drawn[0]
    assert one.tolist() == other.tolist()


@quick
@given(seeds, st.integers(0, 10**6), st.integers(0, 50))
def test_the_kth_sample_does_not_depend_on_what_was_drawn_before(seed, k, earlier):
    root = key(seed, 0, SAMPLES)
    used, unused = blank(), blank()
    rewind(used, root, 7, 3)
    normals(used, np.empty(earlier))
    rewind(used, root, 7, k)
    rewind(unused, root, 7, k)
    assert used.tolist() == unused.tolist()


@quick
@given(st.integers(1, 2**53))
def test_even_the_largest_uniform_stays_below_the_bound(bound):
    largest = 1.0 - 2.0**-53
    assert 0 <= int(largest * bound) < bound
    assert 0 <= below(fresh(bound, 0, SAMPLES), bound) < bound


def test_the_layers_of_the_ziggurat_have_equal_areas_and_end_at_the_top():
    x, height = source.X, np.exp(-0.5 * source.X**2)
    areas = x[1:-1] * (height[2:] - height[1:-1])
    tail = math.sqrt(math.pi / 2) * math.erfc(source.EDGE / math.sqrt(2))
    assert areas == pytest.approx(np.full(source.LAYERS - 1, areas[0]), rel=1e-7)
    assert areas[0] == pytest.approx(source.EDGE * height[1] + tail, rel=1e-8)
    assert x[1] == pytest.approx(source.EDGE, rel=1e-12)
    assert x[-1] == 0.0
    assert np.all(np.diff(x) < 0)


def test_a_candidate_is_surely_in_the_inner_rectangle_only_where_it_is_and_almost_always_where_it_is():
    words = np.arange(source.LAYERS, dtype=np.uint64)  # every layer, …
    for share in (-1.0, -0.999, -0.5, 0.0, 0.3, 0.99, 1.0 - 2**-11, 1.0):  # … at this share of its inner rectangle
        places = share * source.X[1:] / source.X[:-1]
        nearly = np.trunc(np.clip(places, -1.0, 1.0 - 2**-52) * 2.0**52).astype(np.int64).view(np.uint64)
        surely = [source.candidate(word) for word in (nearly << np.uint64(11)) | words]
        inside = np.array([abs(x) for x, _ in surely]) < source.X[1:]
        within = np.array([sure for _, sure in surely])
        assert not (within & ~inside).any()
        assert (within | ~inside).mean() > 0.9 or abs(share) > 0.999
