"""The token that a client shows to a server with identities."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple, Union

import grpc

from calibd import errors

# A token, the file with it, or a function that returns it.
Token = Union[str, "os.PathLike[str]", Callable[[], str]]


def token_source(token: Token | None) -> Callable[[], str] | None:
    """A function that returns the token of each call; None: calls have no token.

    token: None means the file that the environment variable CALIBD_TOKEN_FILE names. Files are read
      for each call, so that a token can be replaced.
    """
    if token is None:
        file = os.environ.get("CALIBD_TOKEN_FILE")
        if not file:
            return None
        token = pathlib.Path(file)
    if isinstance(token, str):
        text = _check(token, "token")
        return lambda: text
    if isinstance(token, os.PathLike):
        path = pathlib.Path(token)
        return lambda: _read(path)
    if callable(token):
        function = token
        return lambda: _check(function(), "the result of token()")
    raise errors.invalid("token", f"is a {type(token).__name__}, expected a token, a pathlib.Path of a "
                                  "file, or a function that returns a token")


def _check(token: Any, what: str) -> str:
    # The error does not repeat the token.
    if not isinstance(token, str) or not token or not all(" " < one <= "~" for one in token):
        raise errors.invalid(
            "token", f"({what}) is no token, expected what `calibctl token create` prints")
    return token


def _read(file: pathlib.Path) -> str:
    try:
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not ASCII"
        raise errors.invalid("token", f"cannot be read from {file}: {reason}") from error
    return _check(text.strip(), str(file))


class _Details(NamedTuple):
    """The details of a call with other metadata."""
    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _AddToken(grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]
                grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
                grpc.StreamStreamClientInterceptor):  # type: ignore[misc]
    """Adds the token to each call of a channel."""

    def __init__(self, source: Callable[[], str]) -> None:
        self._source = source

    def _call(self, continuation: Any, details: Any, request: Any) -> Any:
        metadata = (*(details.metadata or ()), ("authorization", f"Bearer {self._source()}"))
        return continuation(_Details(details.method, details.timeout, metadata, details.credentials,
                                     details.wait_for_ready, details.compression), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _call


def with_token(channel: Any, source: Callable[[], str] | None) -> Any:
    """The channel, whose calls have the token."""
    return channel if source is None else grpc.intercept_channel(channel, _AddToken(source))
