"""Every method's machine code does what the method does as plain Python, which the other tests look at."""

import inspect

import pytest

import siag
from plain import MACHINE_CODE
from siag import checks
from siag.methods import (
    ACE,
    ACED,
    ADPSGD,
    EF21,
    IAG,
    LAG,
    MIFA,
    PIAG,
    SAG,
    SAGA,
    SCAFFOLD,
    SGD,
    SIAG,
    STORM,
    Adagrad,
    Adam,
    AsyncSGD,
    Automatic,
    Averaged,
    Clipped,
    CurvatureIAG,
    DuDe,
    FedAsync,
    FedAvg,
    FedBuff,
    FedNova,
    FedProx,
    Incremental,
    Momentum,
    Prox,
    Rennala,
    Ringmaster,
    Scaffnew,
    Yogi,
)

LOCAL = {"steps": 3, "size": 0.1}
METHODS = [
    SIAG(average=2),
    SIAG(average=5, wait=0.5, rows="float32"),
    IAG(),
    SAG(resum=3),
    SGD(),
    ACE(rows="float32"),
    ACED(threshold=30),
    DuDe(),
    DuDe(gradients="exact"),
    Automatic(),
    CurvatureIAG(),
    EF21(k=2, momentum=0.5),
    Incremental(),
    LAG(),
    LAG(trigger="server", smoothness=1.0),
    PIAG(l1=0.1, low=-0.2, high=0.5),
    SAGA(),
    STORM(a=0.3, fall=7.0),
    AsyncSGD(),
    AsyncSGD(adaptive=True),
    AsyncSGD(gradients="exact"),
    Rennala(batch=4),
    Ringmaster(threshold=2),
    ADPSGD(graph="ring", gradients="exact"),
    FedAsync(**LOCAL),
    FedAvg(**LOCAL),
    FedBuff(**LOCAL),
    FedNova(**LOCAL),
    FedProx(**LOCAL, pull=0.7),
    MIFA(**LOCAL, gradients="exact"),
    SCAFFOLD(**LOCAL, gradients="exact"),
    SCAFFOLD(**LOCAL, option=2),
    Scaffnew(p=0.3, size=0.1),
    Averaged(SIAG(), start=3),
    Clipped(AsyncSGD(), norm=0.1),
    Momentum(SIAG()),
    Prox(IAG(), l1=0.05, low=-0.1, high=0.3),
    Adam(SIAG()),
    Adagrad(SIAG()),
    Yogi(SIAG()),
]


@pytest.mark.thorough
@pytest.mark.parametrize("check", [check for check in checks.CHECKS if check.__name__ in MACHINE_CODE])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_it_is_the_method(method, check):
    check(method)


def test_it_is_looked_at_for_every_method():
    known = {getattr(siag.methods, name) for name in siag.methods.__all__}
    kinds = {kind for kind in known if inspect.isclass(kind) and issubclass(kind, siag.methods.Method)}
    assert kinds - {type(method) for method in METHODS} == {siag.methods.Method}
