"""A proxy that cuts connections at any byte, in either direction, between a client and a server."""

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LINGER_NONE = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which closing a socket resets its connection."""


class CuttingProxy:
    """A proxy that cuts each connection after a random number of bytes.

    Args:
        port: Port of the server on the loopback interface.
        seed: Seed of the random numbers.
        most: Maximum number of bytes. Small numbers are as likely as large ones.
        least: Minimum number of bytes.
    """

    def __init__(self, port: int, seed: int, most: int = 60_000, least: int = 1) -> None:
        self._target = port
        self._most = most
        self._least = least
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.cuts = 0
        self.cutting = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    size = int(self._least * (self._most / self._least) ** self._random.random())
                    cut_answers = self._random.random() < 0.5
                never = 1 << 60
                for source, target, left in (
                    (client, server, never if cut_answers else size),
                    (server, client, size if cut_answers else never),
                ):
                    threading.Thread(
                        target=self._pass, args=(source, target, left), daemon=True
                    ).start()

    def _pass(self, source: socket.socket, target: socket.socket, left: int) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if len(data) > left and self.cutting:
                    target.sendall(data[:left])
                    self._cut(source, target)
                    break
                left -= len(data)
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _cut(self, source: socket.socket, target: socket.socket) -> None:
        with self._lock:
            self.cuts += 1
            resets = self._random.random() < 0.5
        if resets:
            for one in (source, target):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def cutting(port: int, seed: int, most: int = 60_000, least: int = 1) -> Iterator[CuttingProxy]:
    """Opens a proxy in front of a server, and closes it at the end."""
    proxy = CuttingProxy(port, seed, most, least)
    try:
        yield proxy
    finally:
        proxy.close()
