"""How rows of the table vary together, by what was so when they were last renewed: O(n) numbers an iteration.

Let worker i have reported last in iteration s_i, and C(s) be C just after the reports of iteration s. The row of worker
i is c_i ∇f_i(w; ξ) with noise of its own, so with everything that was there at s_i it varies through w alone:

    Q_ij = c_i p C_j(s_i)  if s_i ≥ s_j,  and  c_j p C_i(s_j)  otherwise.

So Q need not be kept, only a snapshot of C for every iteration in which some row was last renewed. If C_i(s) is set to
0 when worker i reports after s, the sum of Q_ij over active workers i is, with P_s = Σ c_i p over those with s_i = s,

    Σ_s P_s C_j(s) + c_j p Σ_{i: s_i ≠ s_j} C_i(s_j).

That costs O(n) for every iteration in which an active worker reported before, not for every active worker.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from siag.foundations.dispatch import part
from siag.foundations.types import Floats, Integers

USED, RETIRED, TOUCHED = range(3)  # the entries of `Snapshots.counts`


class Snapshots(NamedTuple):
    """C as it was when rows were last renewed; snapshot 0 is of no iteration."""

    slopes: Floats  # (n,) c_i p
    C: Floats  # (n + 2, n) C_i(s); 0 if worker i has reported since, or has left
    of: Integers  # (n,) the snapshot of worker i's last report; 0 if its row is 0
    users: Integers  # (n + 2,) whose last report that is: how many
    retired: Integers  # (n + 1,) snapshots of nobody's last report, a stack
    touched: Integers  # (n,) where `share` is not 0
    counts: Integers  # (3,) snapshots ever in use, retired, touched
    share: Floats  # (n + 2,) P_s of those whose rows change now, else 0
    cross: Floats  # (n + 2,) Σ_{i: s_i ≠ s} C_i(s) of those, else 0


def no_snapshots(slopes: Floats) -> Snapshots:
    """Before the first report."""
    n = len(slopes)
    of, users, retired, touched = (np.zeros(size, np.int64) for size in (n, n + 2, n + 1, n))
    users[0] = n
    counts = np.zeros(3, np.int64)
    return Snapshots(
        slopes, np.zeros((n + 2, n)), of, users, retired, touched, counts, np.zeros(n + 2), np.zeros(n + 2)
    )


@part
def leave(past: Snapshots, i: int) -> None:
    """Worker i's row changes: note how the old one varies with those of others, and forget it."""
    counts, own = past.counts, past.of[i]
    if past.share[own] == 0.0 and past.slopes[i] > 0.0:
        past.touched[counts[TOUCHED]] = own
        counts[TOUCHED] += 1
    past.share[own] += past.slopes[i]
    past.users[own] -= 1
    if past.users[own] == 0 and own > 0:
        past.retired[counts[RETIRED]] = own
        counts[RETIRED] += 1
    past.C[own, i] = 0.0
    for s in range(counts[USED] + 1):
        past.cross[s] += past.C[s, i]
        past.C[s, i] = 0.0


@part
def take_back(past: Snapshots, S: Floats) -> None:
    """Take what was noted out of the row sums of those whose rows do not change; of the others S is undefined then."""
    touched, share, cross, counts = past.touched, past.share, past.cross, past.counts
    for j in range(S.size):
        S[j] -= past.slopes[j] * cross[past.of[j]]
    for k in range(counts[TOUCHED]):
        much, row = share[touched[k]], past.C[touched[k]]
        for j in range(S.size):
            S[j] -= much * row[j]
    for k in range(counts[TOUCHED]):
        share[touched[k]] = 0.0
    counts[TOUCHED] = 0
    for s in range(counts[USED] + 1):
        cross[s] = 0.0


@part
def keep(past: Snapshots, C: Floats, workers: Integers) -> None:
    """These workers have reported: take a snapshot, in the place of a retired one if there is any."""
    counts = past.counts
    if counts[RETIRED] > 0:
        counts[RETIRED] -= 1
        s = past.retired[counts[RETIRED]]
    else:
        counts[USED] += 1
        s = counts[USED]
    past.users[s] = workers.size
    for j in range(C.size):
        past.C[s, j] = C[j]
    for i in workers:
        past.of[i] = s


@part
def vanish(past: Snapshots, i: int) -> None:
    """The row of worker i, which was forgotten, is 0."""
    past.of[i] = 0
    past.users[0] += 1
