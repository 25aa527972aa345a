import time


def wait_for(condition, seconds=60):
    """Waits until the condition is true. Returns whether it became true within the seconds.

    A passing test never waits until the end, which is therefore far beyond what a busy machine needs.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
