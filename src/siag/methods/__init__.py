"""Methods: Algorithm 1 and its relatives, one file each."""

from siag.methods.ace import ACE
from siag.methods.aced import ACED
from siag.methods.adaptive import Adagrad, Adam, Yogi
from siag.methods.adpsgd import ADPSGD
from siag.methods.async_sgd import AsyncSGD
from siag.methods.automatic import Automatic
from siag.methods.averaged import Averaged
from siag.methods.clipped import Clipped
from siag.methods.curvature import CurvatureIAG
from siag.methods.dude import DuDe
from siag.methods.ef21 import EF21
from siag.methods.fedasync import FedAsync
from siag.methods.fedavg import FedAvg
from siag.methods.fedbuff import FedBuff
from siag.methods.fednova import FedNova
from siag.methods.fedprox import FedProx
from siag.methods.fit import check_fit, step_of
from siag.methods.iag import IAG
from siag.methods.incremental import Incremental
from siag.methods.lag import LAG
from siag.methods.method import (
    Exact,
    Method,
    Streaming,
    advance,
    answer,
    arrive,
    compute,
    cost,
    fade,
    forget,
    needs,
    ready,
    receive,
    shown,
    told,
    travelled,
    weigh,
    weight,
)
from siag.methods.mifa import MIFA
from siag.methods.momentum import Momentum
from siag.methods.piag import PIAG
from siag.methods.prox import Prox
from siag.methods.rennala import Rennala
from siag.methods.ringmaster import Ringmaster
from siag.methods.sag import SAG
from siag.methods.saga import SAGA
from siag.methods.scaffnew import Scaffnew
from siag.methods.scaffold import SCAFFOLD
from siag.methods.sgd import NORMALIZATIONS, SGD, Fresh
from siag.methods.siag import SIAG, MeanRows
from siag.methods.standardised import Standardised
from siag.methods.storm import STORM
from siag.methods.table import Table, table, total_weight
from siag.methods.trial import check_parts, try_method, try_out, try_problem
from siag.methods.weighted import Weighted, weigh_parts, weighted_for, weighting_of, with_weights
from siag.problems.weights import check_weights

__all__ = [
    "ACE",
    "ACED",
    "ADPSGD",
    "EF21",
    "IAG",
    "LAG",
    "MIFA",
    "NORMALIZATIONS",
    "PIAG",
    "SAG",
    "SAGA",
    "SCAFFOLD",
    "SGD",
    "SIAG",
    "STORM",
    "Adagrad",
    "Adam",
    "AsyncSGD",
    "Automatic",
    "Averaged",
    "Clipped",
    "CurvatureIAG",
    "DuDe",
    "Exact",
    "FedAsync",
    "FedAvg",
    "FedBuff",
    "FedNova",
    "FedProx",
    "Fresh",
    "Incremental",
    "MeanRows",
    "Method",
    "Momentum",
    "Prox",
    "Rennala",
    "Ringmaster",
    "Scaffnew",
    "Standardised",
    "Streaming",
    "Table",
    "Weighted",
    "Yogi",
    "advance",
    "answer",
    "arrive",
    "check_fit",
    "check_parts",
    "check_weights",
    "compute",
    "cost",
    "fade",
    "forget",
    "needs",
    "ready",
    "receive",
    "shown",
    "step_of",
    "table",
    "told",
    "total_weight",
    "travelled",
    "try_method",
    "try_out",
    "try_problem",
    "weigh",
    "weigh_parts",
    "weight",
    "weighted_for",
    "weighting_of",
    "with_weights",
]
