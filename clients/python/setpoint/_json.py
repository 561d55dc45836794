"""Messages of mappings in the JSON form of the API."""

from __future__ import annotations

import difflib
import json
import math
import re
from datetime import datetime, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Mapping, TypeVar, Union

import grpc
from google.protobuf import duration_pb2, json_format, timestamp_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from setpoint._errors import Error, Violation

M = TypeVar("M", bound=Message)

# Fields with Kubernetes quantities, in which JSON may have a number.
_QUANTITIES = {"value", "average_value", "tolerance", "requests", "overhead", "usage", "usage_per_load", "idle_usage"}

# A list that may be absent but not empty, which the message would not show.
_POLICIES = "setpoint.v1.HPAScalingRules.policies"


def read(kind: type[M], value: Union[M, Mapping[str, Any]], path: str = "") -> M:
    """Returns the message, or one of a mapping. What the API does not know is an Error, as over REST. path: where it is in the request."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"setpoint: a {kind.DESCRIPTOR.name} or a mapping is wanted, not {type(value).__name__}")
    wrong: list[Violation] = []
    form = _form(value, kind.DESCRIPTOR, path, wrong)
    if not wrong:
        message = kind()
        try:
            json_format.ParseDict(form, message)
            return message
        except (json_format.ParseError, TypeError, ValueError) as error:
            wrong.append(Violation(path, str(error).splitlines()[0]))
    first = f"{wrong[0].field}: {wrong[0].description}" if wrong[0].field else wrong[0].description
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    invalid = Error(grpc.StatusCode.INVALID_ARGUMENT, f"invalid request: {first}{more}")
    invalid.reason, invalid.violations = "INVALID_REQUEST", tuple(wrong[:100])
    raise invalid


def _form(value: Any, kind: Any, path: str, wrong: list[Violation]) -> Any:
    """Returns the mapping with numbers of quantities as texts, and notes fields that kind does not have."""
    if not isinstance(value, Mapping) or kind.full_name.startswith("google.protobuf."):
        return value  # ParseDict says what is wrong
    known = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    form: dict[str, Any] = {}
    for name, one in value.items():
        at = f"{path}.{name}" if path else str(name)
        field = known.get(name)
        if field is None:
            close = difflib.get_close_matches(str(name), [f.json_name for f in kind.fields], 1)
            # A spec where a message with a spec is wanted.
            close = close or [f"{f.json_name}.{name}" for f in kind.fields if f.message_type and name in f.message_type.fields_by_camelcase_name]
            wrong.append(Violation(at, "unknown field" + (f", did you mean {json.dumps(close[0])}?" if close else "")))
        elif one is None:
            continue
        elif field.json_name in form:
            wrong.append(Violation(at, "duplicate field"))  # by its other spelling
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            if not isinstance(one, Mapping):
                wrong.append(Violation(at, f"must be a mapping, is {_said(one)}"))
                continue
            values = field.message_type.fields_by_name["value"]
            form[field.json_name] = {key: _element(e, values, f"{at}[{json.dumps(str(key))}]", wrong, field.name) for key, e in one.items()}
        elif field.full_name == _POLICIES and isinstance(one, (list, tuple)) and not one:
            wrong.append(Violation(at, "must have at least one policy; without the field there are the defaults"))
        elif not _is_repeated(field):
            form[field.json_name] = _element(one, field, at, wrong)
        elif isinstance(one, (list, tuple)):
            form[field.json_name] = [_element(e, field, f"{at}[{i}]", wrong) for i, e in enumerate(one)]
        else:
            wrong.append(Violation(at, f"must be a list, is {_said(one)}"))
    return form


def _is_repeated(field: Any) -> bool:
    # label is deprecated since protobuf 6, which has is_repeated.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED)


def _said(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}"


# The bits of whole numbers, and whether they have a sign.
_WHOLE = {
    FieldDescriptor.TYPE_INT32: (32, True), FieldDescriptor.TYPE_INT64: (64, True), FieldDescriptor.TYPE_UINT32: (32, False),
    FieldDescriptor.TYPE_UINT64: (64, False), FieldDescriptor.TYPE_SINT32: (32, True), FieldDescriptor.TYPE_SINT64: (64, True),
}  # fmt: skip


def _is_whole(value: Any, bits: int, signed: bool) -> bool:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return False
    if isinstance(value, bool) or not isinstance(value, str) and value != number:
        return False
    return -(1 << bits - 1) <= number < 1 << bits - 1 if signed else 0 <= number < 1 << bits


_FRACTIONS = {FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT}


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


# Messages that are texts in JSON: what Python has for them, and what is wanted.
_TIMES: dict[str, tuple[Any, str]] = {
    "google.protobuf.Timestamp": (timestamp_pb2.Timestamp, "a time with its zone, such as '2026-01-31T12:00:00Z' or a datetime"),
    "google.protobuf.Duration": (duration_pb2.Duration, "a duration in seconds, such as '300s', or a timedelta"),
}


def _time(value: Any, kind: Any, wanted: str, path: str, wrong: list[Violation]) -> Any:
    message = kind()
    try:
        if isinstance(value, datetime) and value.tzinfo and kind is timestamp_pb2.Timestamp:
            message.FromDatetime(value)
        elif isinstance(value, timedelta) and kind is duration_pb2.Duration:
            message.FromTimedelta(value)
        else:
            json_format.ParseDict(value, message)
        return message.ToJsonString()
    except (json_format.ParseError, AttributeError, OverflowError, TypeError, ValueError):
        wrong.append(Violation(path, f"must be {wanted}, is {_said(value)}"))


# What Python has for bytes of a file's name that are no text.
_SURROGATE = re.compile("[\ud800-\udfff]")


def _text(value: Any, is_quantity: bool, path: str, wrong: list[Violation]) -> Any:
    if isinstance(value, str):
        if not value.isascii() and _SURROGATE.search(value):
            wrong.append(Violation(path, f"must be a string without unpaired surrogates, is {ascii(value[:40])}"))
    elif is_quantity and isinstance(value, (Real, Decimal)) and not isinstance(value, bool):  # databases have Decimal, and NumPy has numbers of its own
        return str(value) if isinstance(value, Decimal) else json.dumps(int(value) if isinstance(value, Integral) else float(value))
    else:
        wrong.append(Violation(path, f"must be a {'quantity such as 500m' if is_quantity else 'string'}, is {_said(value)}"))
    return value


def _element(value: Any, field: FieldDescriptor, path: str, wrong: list[Violation], name: str = "") -> Any:
    if field.message_type is not None:
        if isinstance(value, Message):
            return json_format.MessageToDict(value)
        if field.message_type.full_name in _TIMES:
            return _time(value, *_TIMES[field.message_type.full_name], path, wrong)
        if not isinstance(value, Mapping) and not field.message_type.full_name.startswith("google.protobuf."):
            wrong.append(Violation(path, f"must be a mapping, is {_said(value)}"))
        return _form(value, field.message_type, path, wrong)
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text(value, (name or field.name) in _QUANTITIES, path, wrong)
    if field.type in _WHOLE and not _is_whole(value, *_WHOLE[field.type]):
        wrong.append(Violation(path, f"must be a whole number of {_WHOLE[field.type][0]} bits, is {_said(value)}"))
    elif field.type in _FRACTIONS and not _is_finite(value):
        wrong.append(Violation(path, f"must be a finite number, is {_said(value)}"))
    elif field.type == FieldDescriptor.TYPE_BOOL and not isinstance(value, bool):
        wrong.append(Violation(path, f"must be true or false, is {_said(value)}"))
    return value
