"""Stands in for containerd on a machine of the tests: says that it is ready, and waits."""

import os
import socket
import time

with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
    channel.connect(os.environ["NOTIFY_SOCKET"].replace("@", "\0", 1))
    channel.send(b"READY=1")
while True:
    time.sleep(3600)
