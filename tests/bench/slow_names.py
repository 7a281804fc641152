"""Be a name service that knows no name, and takes its time to say so."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESS = "127.0.0.53"
_UNKNOWN = 0x8183
"""The flags of an answer that says that there is no such name (RFC 1035, 4.1.1)."""


@contextmanager
def slow_names(folder: Path, seconds: float) -> Iterator[list[str]]:
    """Answer questions after some ``seconds``; yield the engine's options for containers to ask.

    Only root can have the port of a name service.
    """
    (folder / "nsswitch.conf").write_text("hosts: dns\n")
    (folder / "resolv.conf").write_text(f"nameserver {ADDRESS}\noptions attempts:1\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((ADDRESS, 53))
        threading.Thread(target=_serve, args=(server, seconds), daemon=True).start()
        binds = [f"{folder / name}:/etc/{name}" for name in ("nsswitch.conf", "resolv.conf")]
        yield [word for bind in binds for word in ("--bind", bind)]


def _serve(server: socket.socket, seconds: float) -> None:
    while True:
        try:
            question, client = server.recvfrom(512)
        except OSError:  # it is closed
            return
        answer = question[:2] + _UNKNOWN.to_bytes(2, "big") + question[4:]
        threading.Timer(seconds, _send, (server, answer, client)).start()


def _send(server: socket.socket, answer: bytes, client: tuple[str, int]) -> None:
    try:
        server.sendto(answer, client)
    except OSError:  # it is closed
        return
