"""A proxy that loses responses: the server acts, and the client does not learn it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class DroppingProxy:
    """A proxy that closes a connection when the response to a certain request arrives.

    Args:
        port: Port of the server on the loopback interface.
        sign: Bytes that occur in the requests whose responses are lost.
    """

    def __init__(self, port: int, sign: bytes) -> None:
        self._target = port
        self._sign = sign
        self.left = 0
        """How many answers are still to be lost."""
        self.lost = 0
        self.refusing = False
        """Whether new connections are refused, as if the server were gone."""
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.refusing:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                losing = threading.Event()
                threading.Thread(
                    target=self._pass_requests, args=(client, server, losing), daemon=True
                ).start()
                threading.Thread(
                    target=self._pass_answers, args=(client, server, losing), daemon=True
                ).start()

    def _pass_requests(
        self, client: socket.socket, server: socket.socket, losing: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                with self._lock:
                    if self.left and self._sign in data:
                        self.left -= 1
                        losing.set()
                server.sendall(data)
        self._close(client, server)

    def _pass_answers(
        self, client: socket.socket, server: socket.socket, losing: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                if losing.is_set():
                    # the server has responded, so it has carried the request out
                    self.lost += 1
                    break
                client.sendall(data)
        self._close(client, server)

    def _close(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def close(self) -> None:
        self._close(*self._open)


@contextmanager
def dropping(port: int, sign: bytes) -> Iterator[DroppingProxy]:
    """Opens a proxy in front of a server, and closes it at the end."""
    proxy = DroppingProxy(port, sign)
    try:
        yield proxy
    finally:
        proxy.close()


def url_of(kind: str, port: int, name: str) -> str:
    """Returns the URL of a store of its own in a server of this machine.

    Args:
        kind: `redis` or `postgres`.
        port: Port of the server, or of a proxy in front of it.
        name: Name of the store in the server.
    """
    if kind == "redis":
        return f"redis://127.0.0.1:{port}/0?prefix={name}"
    return f"postgresql://nearkin@127.0.0.1:{port}/postgres?schema={name}"
