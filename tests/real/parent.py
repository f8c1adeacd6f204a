"""Ends a server of the tests with the test that started it, however that ends: `end_with_parent()`.

Whoever starts it holds the other end of its standard input.
"""

import os
import sys
import threading


def watch() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def end_with_parent() -> None:
    threading.Thread(target=watch, daemon=True).start()
