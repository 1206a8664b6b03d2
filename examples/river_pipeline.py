"""Two shops in one river pipeline: the village sells a twentieth of what the centre does, and counts no less for it."""

import numpy as np
from river import compose, linear_model, metrics, preprocessing

from siag.adapters import RiverRegressor


def sales(count, seed=0):
    """What a customer spends, by age in years and time in minutes; the shops differ in what age means."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        shop = "village" if draw.random() < 1 / 21 else "centre"
        age, minutes = draw.normal(40, 10), draw.exponential(5)
        slope = 0.9 if shop == "village" else 0.1
        yield {"shop": shop, "age": age, "minutes": minutes}, slope * age + 2 * minutes + draw.normal()


def learned(model, rows):
    """The mean absolute error of each shop in the second half, every customer predicted before learned from."""
    numbers = compose.Discard("shop") | preprocessing.StandardScaler()
    pipeline = (compose.Select("shop") + numbers if isinstance(model, RiverRegressor) else numbers) | model
    errors = {"centre": metrics.MAE(), "village": metrics.MAE()}
    for k, (x, y) in enumerate(rows):
        predicted = pipeline.predict_one(x)
        if k > len(rows) / 2:
            errors[x["shop"]].update(y, predicted)
        pipeline.learn_one(x, y)
    return " ".join(f"{shop} {error.get():.1f}" for shop, error in errors.items())


if __name__ == "__main__":
    rows = list(sales(20_000))
    print("each shop counts the same:", learned(RiverRegressor(source="shop"), rows))
    print("each customer does:       ", learned(linear_model.LinearRegression(), rows))
