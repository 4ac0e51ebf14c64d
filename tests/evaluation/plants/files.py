"""Writes and reads seven files. Their names begin with `piece`."""

import os


def work():
    for i in range(7):
        file = os.open(f"piece{i}", os.O_RDWR | os.O_CREAT)
        for _ in range(11):
            os.write(file, bytes(100))
        os.pread(file, 50, 0)
        os.fsync(file)
        os.close(file)


work()
