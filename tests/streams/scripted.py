"""Files that change while they are followed: one step at each wait."""

from siag.streams import Follow, Stop


class Script(Stop):
    """Whenever the stream waits, the next step happens; after the last one the stream is to end."""

    def __init__(self, *steps):
        super().__init__()
        self.steps, self.waits = list(steps), []

    def wait(self, seconds):
        self.waits.append(seconds)
        if self.steps:
            self.steps.pop(0)()
        else:
            self.set()
        return self.is_set()


def append(path, text):
    def step():
        with open(path, "ab") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    return step


def follow(path, *steps, **options):
    return list(Follow(path, "lines", **options).samples(Script(*steps)))
