import time


def wait_for(condition, seconds):
    """Waits until the condition is true. Returns whether it became true within the seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
