"""Every method's machine code does what the method does as plain Python, which the other tests look at."""

import inspect

import pytest

from plain import MACHINE_CODE
from siag import checks, methods

LOCAL = {"steps": 3, "size": 0.1}
METHODS = [
    methods.SIAG(average=2),
    methods.SIAG(average=5, wait=0.5, rows="float32"),
    methods.IAG(),
    methods.SAG(resum=3),
    methods.SGD(),
    methods.ACE(rows="float32"),
    methods.ACED(threshold=30),
    methods.DuDe(),
    methods.DuDe(gradients="exact"),
    methods.Automatic(),
    methods.CurvatureIAG(),
    methods.EF21(k=2, momentum=0.5),
    methods.Incremental(),
    methods.LAG(),
    methods.LAG(trigger="server", smoothness=1.0),
    methods.PIAG(l1=0.1, low=-0.2, high=0.5),
    methods.SAGA(),
    methods.STORM(a=0.3, fall=7.0),
    methods.AsyncSGD(),
    methods.AsyncSGD(adaptive=True),
    methods.AsyncSGD(gradients="exact"),
    methods.Rennala(batch=4),
    methods.Ringmaster(threshold=2),
    methods.ADPSGD(graph="ring", gradients="exact"),
    methods.FedAsync(**LOCAL),
    methods.FedAvg(**LOCAL),
    methods.FedBuff(**LOCAL),
    methods.FedNova(**LOCAL),
    methods.FedProx(**LOCAL, pull=0.7),
    methods.MIFA(**LOCAL, gradients="exact"),
    methods.SCAFFOLD(**LOCAL, gradients="exact"),
    methods.SCAFFOLD(**LOCAL, option=2),
    methods.Scaffnew(p=0.3, size=0.1),
    methods.Averaged(methods.SIAG(), start=3),
    methods.Clipped(methods.AsyncSGD(), norm=0.1),
    methods.Momentum(methods.SIAG()),
    methods.Prox(methods.IAG(), l1=0.05, low=-0.1, high=0.3),
    methods.Adam(methods.SIAG()),
    methods.Adagrad(methods.SIAG()),
    methods.Yogi(methods.SIAG()),
    methods.Weighted(methods.Automatic(), "samples"),
    methods.Weighted(methods.EF21(k=2), [2.0, 2.0, 2.0, 2.0]),
    methods.Standardised(methods.Automatic(), means=[8.0, -3.0], deviations=[2.0, 0.5]),
]


@pytest.mark.thorough
@pytest.mark.parametrize("check", [check for check in checks.CHECKS if check.__name__ in MACHINE_CODE])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_it_is_the_method(method, check):
    check(method)


def test_it_is_looked_at_for_every_method():
    known = {getattr(methods, name) for name in methods.__all__}
    kinds = {kind for kind in known if inspect.isclass(kind) and issubclass(kind, methods.Method)}
    assert kinds - {type(method) for method in METHODS} == {methods.Method}
