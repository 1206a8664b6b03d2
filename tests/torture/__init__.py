"""The whole live system in one process, on virtual time, with faults from one seed: `make torture SEEDS=10000`."""
