"""Encrypted connections, and the certificate by which a server knows its client."""
from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any, Tuple, Union

import grpc

from calibd import arguments, errors

_Path = Union[str, "os.PathLike[str]"]
# In the order of the fields of Tls.
_VARIABLES = ("CALIBD_CLIENT_TLS_CA", "CALIBD_CLIENT_TLS_CERTIFICATE", "CALIBD_CLIENT_TLS_KEY",
              "CALIBD_CLIENT_TLS_SERVER_NAME")


@dataclasses.dataclass(frozen=True)
class Tls:
    """The files of TLS, in PEM. They are read again for new connections when they have changed.

    ca: the CAs of which one has issued the certificate of the server.
    certificate, key: those of this client, for a server that wants to know its clients.
    server_name: a name in the certificate of the server; None: the host of the target. Give it if the
      target is the address of a tunnel or a proxy.
    """

    ca: _Path
    certificate: _Path | None = None
    key: _Path | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        for field in ("ca", "certificate", "key"):
            value = getattr(self, field)
            if value is not None or field == "ca":
                arguments.file_path(f"tls.{field}", value)
        if self.server_name is not None:
            arguments.expect("tls.server_name", self.server_name, str, "a name of the server")
        if (self.certificate is None) != (self.key is None):
            missing = "key" if self.key is None else "certificate"
            raise errors.invalid(f"tls.{missing}",
                                 "is missing: a client shows its certificate and proves it by its key")

    @classmethod
    def of_environment(cls) -> Tls | None:
        """The files that the environment names; None without CALIBD_CLIENT_TLS_CA."""
        ca, *others = (os.environ.get(name) or None for name in _VARIABLES)
        if ca is not None:
            return cls(ca, *others)
        for name in _VARIABLES:
            if os.environ.get(name):
                raise errors.invalid(name, "is set without CALIBD_CLIENT_TLS_CA, which names the CAs of "
                                     "the server and turns on TLS")
        return None

    def stamp(self) -> Tuple[Any, ...]:
        """Changes when a file changes."""
        stamps = []
        for path in (self.ca, self.certificate, self.key):
            try:
                found = os.stat(path) if path is not None else None
            except OSError:
                found = None
            stamps.append(None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(stamps)

    def credentials(self) -> Any:
        """The credentials of a channel, from the current contents of the files."""
        ca = _read("tls.ca", self.ca, b"BEGIN CERTIFICATE", "certificate")
        if self.certificate is None or self.key is None:
            return grpc.ssl_channel_credentials(ca)
        key = _read("tls.key", self.key, b"PRIVATE KEY", "private key")
        if b"ENCRYPTED" in key:
            raise errors.invalid("tls.key", f"is {self.key}, which is encrypted: store it without a "
                                 "passphrase, readable for this user only")
        return grpc.ssl_channel_credentials(
            ca, key, _read("tls.certificate", self.certificate, b"BEGIN CERTIFICATE", "certificate"))


def _read(field: str, path: _Path, mark: bytes, what: str) -> bytes:
    try:
        contents = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise errors.invalid(field, f"is {path}, which cannot be read: {error.strerror}") from None
    # gRPC would only report that no server answers.
    if mark not in contents:
        raise errors.invalid(field, f"is {path}, which has no {what} in PEM")
    return contents
