"""The messages of an answer as programs read them."""
from __future__ import annotations

import datetime
import inspect
from typing import Any, Generic, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_Message = TypeVar("_Message", bound=Message)

# The option of protobuf's JSON that prints zeros has another name since protobuf 26.
_PRINT_ZEROS = next(name for name in ("always_print_fields_with_no_presence",
                                      "including_default_value_fields")
                    if name in inspect.signature(json_format.MessageToDict).parameters)


class Facts(Generic[_Message]):
    """A message, `message`, whose fields are attributes of this object.

    A message in it is such an object too, and a list of messages a list of them. An enum is the text of
    the protocol, such as "MISCALIBRATED", a Timestamp a datetime in UTC, and a Duration a timedelta. A
    message, and an optional number or text, is None if it is unset.
    """

    def __init__(self, message: _Message) -> None:
        self.message = message

    def __getattr__(self, name: str) -> Any:
        # Copies are made without __init__, and look for attributes before there is a message.
        if name == "message" or name.startswith("__"):
            raise AttributeError(name)
        field = self.message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise AttributeError(f"{type(self).__name__} of a {self.message.DESCRIPTOR.name} has no "
                                 f"attribute {name!r}: see dir() of it")
        value = getattr(self.message, name)
        if hasattr(value, "extend"):
            return [_fact(field, one) for one in value]
        has_presence = field.message_type is not None or field.containing_oneof is not None
        return None if has_presence and not self.message.HasField(name) else _fact(field, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.message.DESCRIPTOR.fields_by_name]

    def to_dict(self) -> dict[str, Any]:
        """The message in protobuf's JSON mapping, as HTTP and `calibctl --output json` print it."""
        found: dict[str, Any] = json_format.MessageToDict(self.message, **{_PRINT_ZEROS: True})
        return found

    def __repr__(self) -> str:
        return str(self.message)


def enum_text(field: FieldDescriptor, number: int) -> str:
    """The text of an enum; the number if a newer server has one that is not known here."""
    known = field.enum_type.values_by_number.get(number)
    return str(number) if known is None else str(known.name)


def _fact(field: FieldDescriptor, value: Any) -> Any:
    """A single value of a field."""
    if field.enum_type is not None:
        return enum_text(field, value)
    if field.message_type is None:
        return value
    if field.message_type.full_name == "google.protobuf.Timestamp":
        return value.ToDatetime(datetime.timezone.utc)
    if field.message_type.full_name == "google.protobuf.Duration":
        return value.ToTimedelta()
    return Facts(value)
