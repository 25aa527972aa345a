"""A stream for a service that must not wait for the server that watches it."""
from __future__ import annotations

import functools
from typing import Any

from calibd.arguments import model_name
from calibd.credentials import Token
from calibd.stream import ObservationStream
from calibd.stream_settings import OnFull, StreamSettings
from calibd.tls import Tls
from calibd.transport import Endpoint, StreamChannels


class Monitor(ObservationStream):
    """The stream of a service to the model that it serves.

        monitor = calibd.Monitor("digits")                  # once for each process, at its import
        monitor.observe(probabilities, id=request_id)       # in a handler

    It needs no server to be made, and may be made before a fork: each process has a stream of its
    own, which opens when it has rows. Calls never wait for calibd, whether it is there,
    slow, absent, or refuses the rows, and raise no error. What was buffered is sent when it
    returns; rows for which the buffer has no room are dropped, reported to calibd, counted in
    `counts`, and logged once a minute. So is the reason why calibd is not reached. close(), and
    the end of the process, wait at most close_timeout seconds for the server. A process that a
    signal kills loses the rows that it has not sent: install a handler that ends it by
    sys.exit(), as servers of HTTP do.

    target: "HOST:PORT"; without it the environment variable CALIBD_SERVER or 127.0.0.1:8460.
    tls, token: see Client.
    on_full: "block": calls wait for the server when the buffer is full, and raise errors.
    """

    def __init__(self, model: str, target: str | None = None, *, on_full: OnFull = "drop",
                 max_buffer_bytes: int = 32 << 20, stall_timeout: float = 60.0,
                 close_timeout: float = 5.0, tls: Tls | None = None,
                 token: Token | None = None) -> None:
        settings = StreamSettings(
            model_name(model), max_buffer_bytes=max_buffer_bytes, stall_timeout=stall_timeout,
            on_full=on_full, close_timeout=close_timeout)
        self._endpoint = Endpoint.of(target, tls, token)
        super().__init__(StreamChannels(self._endpoint), settings, None)

    def __reduce__(self) -> Any:
        """A copy in another process has an empty stream of its own."""
        settings = self._settings
        return functools.partial(
            Monitor, on_full=settings.on_full, max_buffer_bytes=settings.max_buffer_bytes,
            stall_timeout=settings.stall_timeout,
            close_timeout=settings.close_timeout, tls=self._endpoint.tls,
            token=self._endpoint.token), (settings.model, self._endpoint.target)
