"""What tests of sessions do with one: join, report, look what has failed."""

import numpy as np

import siag

STEP, D = siag.steps.Constant(0.1), 3


def report(session, row, now, value=1.0, stamp=None, sample=None):
    member = session.server.members[row]
    number = member.samples if sample is None else sample
    at = session.server.version if stamp is None else stamp
    session.push(row, at, np.full(D, value), number, now)


def join(session, now=0.0):
    for row in range(session.server.n):
        session.server.join(row, now)


def failures(session):
    return [(failure.name, failure.kind, failure.reason) for failure in session.departures.failures]
