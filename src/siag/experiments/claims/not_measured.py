"""What the papers of the methods claim and nothing here puts to the test, in a line each."""

from __future__ import annotations

from collections.abc import Mapping

NOT_MEASURED: Mapping[str, str] = {
    "SIAG": "the growth with the staleness T, the bound of Theorem 1, the lemmas: `siag reproduce` tests them",
    "IAG": "the constants of the rates, and for Blatt et al. problems that are not quadratic",
    "PIAG": "convex functions other than the ℓ₁ norm and boxes; the constants of the rate",
    "Incremental": "subgradients and proximal variants; problems that are not quadratic",
    "SAG": "the rate O(1/k) without strong convexity; adaptive L; that it beats others on real data",
    "SAGA": "the rate O(1/k) without strong convexity; the proximal variant, which is `Prox(SAGA())` here",
    "CurvatureIAG": "its accelerated variant; the size of the region in which the rate holds",
    "LAG": "the rates without strong convexity and on non-convex problems; real data; the saving of downloads",
    "DelayAdaptive": "convex and non-convex rates, asynchronous block coordinate descent, measured delays of a cluster",
    "AsyncSGD": "Mishchenko et al.'s non-convex rate; Lian et al.'s shared-memory variant; Mishchenko et al.'s bounds "
    "where data differ",
    "ADPSGD": "speed on a cluster; that bipartite graphs do not deadlock",
    "FedAvg": "neural networks, the paper's own tasks; clients drawn at random, unequal amounts of data",
    "FedProx": "the theorem on dissimilar functions, non-convex ones included; inexact local solutions; real data",
    "SCAFFOLD": "the non-convex and convex rates, and the noise terms of all: gradients are exact here",
    "Scaffnew": "stochastic gradients, decentralised graphs, other proximal maps",
    "MIFA": "the non-convex rate; that the rate is the best possible; neural networks",
    "FedBuff": "how the rate depends on the largest delay; privacy, secure aggregation; the factors of its experiments",
    "FedAsync": "weakly convex functions; neural networks; noise, gradients being exact here",
    "DuDe": "that its rate is nearly the best possible; how the rate depends on n and on the delays without convexity",
    "ACE": "how the rate depends on n and on the delays without convexity; clients that drop out",
    "Averaged": "that the errors are normally distributed; steps that fall more slowly than 1/t",
    "Rennala": "the non-convex time complexity, and that it is the best possible; workers whose data differ",
    "Ringmaster": "the non-convex time complexity, and that it is the best possible; the variant that stops old work",
    "DelayThreshold": "the non-convex rates; the term of data that differ; local steps",
    "ACED": "the non-convex rate; the paper's own tasks",
    "FedNova": "the non-convex rate; local momentum and proximal steps; the paper's own tasks",
    "Momentum": "non-convex problems; Hsu et al.'s own tasks",
    "Adam": "FedAdam's own theorem, which is for non-convex problems; the paper's own tasks",
    "Yogi": "the non-convex rate; the paper's own tasks",
    "Adagrad": "the non-convex rate; the paper's own tasks",
    "Clipped": "non-convex problems with growing smoothness; the constants of both bounds",
    "EF21": "without convexity, the rate 1/T with exact gradients and the speedup in n; compressors other than that of "
    "the largest coordinates",
    "STORM": "step sizes from the norms of gradients, which are given here",
}
