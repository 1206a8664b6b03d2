"""Packed messages: to the bit those of plain NumPy, unbiased, and never finite where a number was not."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packed import rounded

from siag.foundations.encodings import BFLOAT16, INT8
from siag.foundations.packing import pack_message, unpack_codes, unpack_halves
from siag.foundations.rng import SAMPLES, blank, key
from siag.live.sharding.slices import bounds

PACKED = pytest.mark.parametrize("encoding", [BFLOAT16, INT8], ids=lambda encoding: encoding.name)


def packed(encoding, numbers, sample=0, seed=7, row=2):
    """A message as it is sent."""
    content = np.full(encoding.length(np.size(numbers)), 99, np.uint8)
    pack_message(encoding.way, np.asarray(numbers), content, key(seed, 0, SAMPLES), row, sample, blank())
    return content


def unpacked(encoding, content, count):
    """Its numbers."""
    numbers = np.full(count, 99.0)
    if encoding is BFLOAT16:
        unpack_halves(content, numbers, 0, count)
    else:
        unpack_codes(encoding.way.before, content, numbers, 0, count)
    return numbers


@PACKED
@pytest.mark.parametrize("count", [1, 20, 255, 256, 257, 1000])
def test_messages_are_those_of_plain_numpy(encoding, count):
    rng = np.random.default_rng(count)
    for sample, spread in enumerate((0.0, 1.0, 40.0)):  # the last: from 1e-60 to 1e60, too small and too large for all
        numbers = np.clip(rng.normal(size=count) * np.exp(spread * rng.normal(size=count)), -1e38, 1e38)
        found = unpacked(encoding, packed(encoding, numbers, sample), count)
        assert np.array_equal(found, rounded(encoding.name, numbers, 7, 2, sample))
        short = numbers.astype(np.float32)
        found = unpacked(encoding, packed(encoding, short, sample), count)
        assert np.array_equal(found, rounded(encoding.name, short, 7, 2, sample))
        assert np.array_equal(found, found.astype(np.float32))


@PACKED
def test_a_message_is_a_function_of_its_numbers_the_seed_the_worker_and_the_sample(encoding):
    numbers = np.linspace(-1.0, 1.0, 300)
    first = packed(encoding, numbers)
    assert np.array_equal(first, packed(encoding, numbers))
    for other in ({"sample": 1}, {"seed": 8}, {"row": 3}):
        assert not np.array_equal(first, packed(encoding, numbers, **other))


@PACKED
def test_rounding_is_unbiased(encoding):
    """The mean of 4000 messages of 300 numbers, each to 5.5 standard errors: by chance once in 10⁵ other seeds."""
    rng, repeats = np.random.default_rng(1), 4000
    numbers = rng.normal(size=300) * np.exp(rng.normal(size=300))
    error = np.array([unpacked(encoding, packed(encoding, numbers, k), 300) for k in range(repeats)]) - numbers
    steps = np.abs(error).max(axis=0)
    assert np.all(np.abs(error.mean(axis=0)) <= 5.5 * error.std(axis=0) / np.sqrt(repeats) + 1e-7 * np.abs(numbers))
    assert steps.max() <= (np.abs(numbers).max() / 126.9 if encoding is INT8 else 2.0**-7 * np.abs(numbers).max())


@PACKED
@pytest.mark.parametrize("odd", [np.nan, -np.nan, np.inf, -np.inf, 1e300, -5e40])
def test_what_is_not_finite_stays_so(encoding, odd):
    """The last two are finite, but not as a float32, nor as 127 of them."""
    numbers = np.ones(600)
    numbers[300] = odd
    found = unpacked(encoding, packed(encoding, numbers), 600)
    if encoding is INT8:
        assert np.isnan(found[256:512]).all()
        assert np.isfinite(np.delete(found, np.s_[256:512])).all()
    else:
        assert np.isnan(found[300]) if np.isnan(odd) else found[300] == np.copysign(np.inf, odd)
        assert np.isfinite(np.delete(found, 300)).all()


def test_a_nan_of_any_bits_stays_one():
    for bits in (0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF, 0xFF80FFFF):
        number = np.array([bits], np.uint32).view(np.float32)
        assert np.isnan(unpacked(BFLOAT16, packed(BFLOAT16, number), 1))


@PACKED
@settings(max_examples=200, deadline=None)
@given(numbers=st.lists(st.floats(-1e38, 1e38) | st.floats(-1e-40, 1e-40), min_size=1, max_size=600))
def test_no_number_is_off_by_more_than_a_step_and_zeros_stay_zeros(encoding, numbers):
    numbers = np.array(numbers)
    found = unpacked(encoding, packed(encoding, numbers), numbers.size)
    largest = np.array([np.abs(numbers[j // 256 * 256 : j // 256 * 256 + 256]).max() for j in range(numbers.size)])
    step = largest / 127 * (1 + 2.0**-15) + 2.0**-110 if encoding is INT8 else 2.0**-7 * np.abs(numbers) + 2.0**-133
    assert np.all(np.abs(found - numbers) <= step)
    assert not np.any(found[numbers == 0])


def test_messages_are_as_short_as_is_said():
    assert [BFLOAT16.size(d) / (8 * d) for d in (20, 10**6)] == [0.25, 0.25]
    assert [round(8 * d / INT8.size(d), 2) for d in (20, 256, 1000, 10**6)] == [6.67, 7.88, 7.87, 7.88]
    assert INT8.model.name == BFLOAT16.model.name == "float32"


@PACKED
@settings(max_examples=100, deadline=None)
@given(count=st.integers(1, 1200), shards=st.integers(1, 5), seed=st.integers(0, 9))
def test_slices_have_the_numbers_of_the_whole(encoding, count, shards, seed):
    shards = min(shards, count)
    whole = packed(encoding, np.random.default_rng(seed).normal(size=count))
    assert encoding.count(whole.size) == count
    parts = []
    for k in range(shards):
        first, last = bounds(count, shards, k)
        part, kind = encoding.cut(whole, first, last), encoding.after(first)
        assert part.size == kind.length(last - first) == kind.size(last - first)
        kind = pickle.loads(pickle.dumps(kind))
        parts.append(unpacked(kind if encoding is INT8 else encoding, part, last - first))
    assert np.array_equal(np.concatenate(parts), unpacked(encoding, whole, count))
