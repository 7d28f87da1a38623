"""Reading from sockets in tests of connections."""

import socket


def read_until_closed(connection: socket.socket) -> bytes:
    """Returns what the server sends until it closes the connection."""
    received = b""
    try:
        while chunk := connection.recv(1 << 16):
            received += chunk
    except ConnectionResetError:
        pass
    return received
