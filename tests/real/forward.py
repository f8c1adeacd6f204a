"""Stands in for a load balancer: `forward.py ADDRESS:PORT TARGET:PORT` carries connections from one to the other."""

import socket
import sys
import threading

from parent import end_with_parent


def place(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def carry(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client: socket.socket) -> None:
    try:
        server = socket.create_connection(place(sys.argv[2]), timeout=5)
    except OSError:
        client.close()
        return
    server.settimeout(None)
    threading.Thread(target=carry, args=(server, client), daemon=True).start()
    carry(client, server)


end_with_parent()
with socket.create_server(place(sys.argv[1])) as listening:
    while True:
        threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
