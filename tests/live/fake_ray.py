"""A fake of the few calls of Ray that a driver makes, for tests without a cluster."""

from siag.live.ray import cluster, driver, processes


def fake_ray(monkeypatch):
    """What the driver takes for Ray from now on."""
    fake = FakeRay()
    for module in (cluster, driver, processes):
        monkeypatch.setattr(module, "ray", fake)
    return fake


class FakeRay:
    """As much of Ray as the driver calls: actors that are their names, and calls that are answered as told."""

    def __init__(self):
        import ray

        self.exceptions, self.cloudpickle, self.util = ray.exceptions, ray.cloudpickle, ray.util
        self.names, self.answers = [], {}

    def remote(self, kind):
        return FakeHandle(self)

    def available_resources(self):
        return {}

    def put(self, content):
        return content

    def kill(self, actor):
        self.names.remove(actor.how["name"])

    def wait(self, calls, num_returns=1, timeout=None):
        return [call for call in calls if call in self.answers][:num_returns], []

    def get(self, call, timeout=None):
        if isinstance(call, list):
            return [self.get(each) for each in call]
        answer = self.answers[call]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def answer(self, beginning, answer=None):
        """From now on, answer this call to all actors that are there, if their names begin so."""
        who, call = beginning.rsplit(" ", 1)
        self.answers |= {f"{name} {call}": answer for name in self.names if name.startswith(who)}


class FakeHandle:
    """An actor or a call of Ray's, with its options."""

    def __init__(self, ray, name="", how=None):
        self.ray, self.name, self.how = ray, name, how or {}

    def options(self, **how):
        return FakeHandle(self.ray, self.name, self.how | how)

    def __getattr__(self, name):
        return FakeHandle(self.ray, name, self.how)

    def remote(self, *given):
        if self.name:
            return f"{self.how['name']} {self.name}"
        self.ray.names.append(self.how["name"])
        return self
