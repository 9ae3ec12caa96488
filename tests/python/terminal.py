"""A terminal of 150 columns, for what shows itself only to people."""

import contextlib
import fcntl
import os
import pty
import struct
import termios
import threading


@contextlib.contextmanager
def terminal():
    """Yields the end to give to a process, and a bytearray that has all that was shown when the block has ended."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 150, 0, 0))
    shown = bytearray()

    def read():
        with contextlib.suppress(OSError):  # raised when the other end is closed everywhere
            while part := os.read(master, 4096):
                shown.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield slave, shown
    finally:
        os.close(slave)
        reader.join()
        os.close(master)
