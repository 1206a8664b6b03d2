"""Brokers of Debian's packages, started on a free port of this machine for a test; a reader of any broker's stream."""

import shutil
import socket
import subprocess
from contextlib import suppress
from itertools import islice
from pathlib import Path

from siag.streams import Stop

FOUND_IN = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # mosquitto is in a folder for root


def free_port():
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def read(stream, count):
    """Some samples, each accepted when the next is asked for; then the stream is closed."""
    found, samples = [], stream.samples(Stop())
    for number, sample in enumerate(islice(samples, count), stream._first + 1):
        found.append(sample)
        stream.accepted(number)
    samples.close()
    return found


class Service:
    """A process that listens on a port; it can be killed, and started again on what it has on disk."""

    def __init__(self, folder):
        self.folder, self.port, self.process = Path(folder), free_port(), None
        self.start()

    def program(self, name, package):
        path = shutil.which(name, path=FOUND_IN)
        if path is None:
            raise RuntimeError(f"{name} is missing: apt-get install {package} (make test-adapters does so for root)")
        return path

    def start(self):
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=10):
                return
        raise RuntimeError(f"{self.command()[0]} ended with status {self.process.returncode}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class RedisServer(Service):
    """A redis-server that has everything on disk before it answers."""

    password = None

    def command(self):
        own = ["--requirepass", self.password] if self.password else []
        disk = ["--dir", str(self.folder), "--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        program = self.program("redis-server", "redis-server")
        return [program, "--port", str(self.port), "--bind", "127.0.0.1", *disk, *own]

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"


class SecretRedisServer(RedisServer):
    password = "secret-word"


class Mosquitto(Service):
    """A mosquitto that keeps its sessions on disk when it is asked to save them, and when it ends in order."""

    users = None

    def command(self):
        config = self.folder / "mosquitto.conf"
        allow = "allow_anonymous true" if self.users is None else f"allow_anonymous false\npassword_file {self.users}"
        keep = f"persistence true\npersistence_location {self.folder}/\nautosave_interval 1"
        config.write_text(f"listener {self.port} 127.0.0.1\n{allow}\n{keep}\nuser root\n")
        return [self.program("mosquitto", "mosquitto"), "-c", str(config)]

    def stop(self):
        """Ask it to end, which saves its sessions."""
        self.process.terminate()
        self.process.wait()
