"""Bearer tokens."""

from __future__ import annotations

import os
import threading
from typing import Callable, Optional

TokenSource = Callable[[], str]
"""Returns the bearer token for an attempt of a call, on any thread. Where it fails the call fails with UNAUTHENTICATED.
It bounds its own time: that of the call does not end it."""


def token_file(name: str) -> TokenSource:
    """The content of a file, without the space around it. It is read again when it has changed.
    While it can't be read, or is empty, the token read last is sent."""
    lock = threading.Lock()
    last: Optional[str] = None
    version: object = None

    def token() -> str:
        nonlocal last, version
        with lock:
            try:
                found = os.stat(name)
                now = (found.st_ino, found.st_mtime_ns, found.st_size)
                if last is None or now != version:
                    with open(name, encoding="utf-8") as file:
                        text = file.read().strip()
                    if not text:
                        raise ValueError(f"{name} is empty")
                    last, version = text, now
            except (OSError, ValueError):
                if last is None:
                    raise
            return last

    return token
