"""The options of Client.stream()."""
from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from numbers import Integral
from typing import Literal

from calibd import arguments, errors
from calibd.arguments import shown

OnInvalid = Literal["raise", "drop"]
OnFull = Literal["block", "drop"]

# Open.producer_id of the protocol, of which a key is the end.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_KEY = re.compile(r"[A-Za-z0-9._:-]{1,112}")


def new_producer() -> str:
    """A random name of a producer."""
    return f"python-{secrets.token_hex(8)}"


@dataclass
class StreamSettings:
    """The options of Client.stream()."""

    model: str
    producer_id: str = ""
    epoch: int = 0
    idempotency_key: str = ""
    on_invalid: OnInvalid = "raise"
    max_buffer_bytes: int = 32 << 20
    stall_timeout: float = 60.0
    on_full: OnFull = "block"
    close_timeout: float = 5.0
    ends_producer: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        for name, pattern in (("producer_id", _ID), ("idempotency_key", _KEY)):
            text = getattr(self, name)
            if not isinstance(text, str) or (text and not pattern.fullmatch(text)):
                raise errors.invalid(name, f"is {shown(text)}, expected to match ^{pattern.pattern}$")
        if self.idempotency_key and self.producer_id:
            raise errors.invalid("idempotency_key",
                                 "and producer_id are set, expected at most one of them")
        for name, least in (("epoch", 0), ("max_buffer_bytes", 1)):
            number = getattr(self, name)
            if not isinstance(number, Integral) or not least <= int(number) < 2**63:
                raise errors.invalid(
                    name, f"is {shown(number)}, expected a whole number from {least} to 2^63 - 1")
        self.stall_timeout = arguments.seconds("stall_timeout", self.stall_timeout)
        self.close_timeout = arguments.seconds("close_timeout", self.close_timeout)
        arguments.choose("on_invalid", self.on_invalid, {"raise": None, "drop": None})
        arguments.choose("on_full", self.on_full, {"block": None, "drop": None})
        if self.on_full == "drop":
            if self.idempotency_key or self.producer_id:
                raise errors.invalid("on_full", 'is "drop", expected "block" with an idempotency_key or '
                                     "a producer_id: dropped rows could not be sent again")
            # There is nobody who could take an error.
            self.on_invalid = "drop"
        if not self.producer_id:
            self.ends_producer = True
            self.producer_id = (f"idempotency-key:{self.idempotency_key}" if self.idempotency_key
                                else new_producer())
