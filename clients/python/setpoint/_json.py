"""Messages of mappings in the JSON form of the API."""

from __future__ import annotations

import difflib
import json
from typing import Any, Mapping, TypeVar, Union

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from setpoint._errors import Error, Violation

M = TypeVar("M", bound=Message)

# Fields with Kubernetes quantities, in which JSON may have a number.
_QUANTITIES = {"value", "average_value", "tolerance", "requests", "overhead", "usage", "usage_per_load", "idle_usage"}


def read(kind: type[M], value: Union[M, Mapping[str, Any]]) -> M:
    """Returns the message, or one of a mapping. What the API does not know is an Error, as over REST."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"setpoint: a {kind.DESCRIPTOR.name} or a mapping is wanted, not {type(value).__name__}")
    wrong: list[Violation] = []
    form = _form(value, kind.DESCRIPTOR, "", wrong)
    if not wrong:
        message = kind()
        try:
            json_format.ParseDict(form, message)
            return message
        except (json_format.ParseError, TypeError, ValueError) as error:
            wrong.append(Violation("", str(error).splitlines()[0]))
    first = f"{wrong[0].field}: {wrong[0].description}".lstrip(": ")
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    invalid = Error(grpc.StatusCode.INVALID_ARGUMENT, f"invalid request: {first}{more}")
    invalid.violations = tuple(wrong[:100])
    raise invalid


def _form(value: Any, kind: Descriptor, path: str, wrong: list[Violation]) -> Any:
    """Returns the mapping with numbers of quantities as texts, and notes fields that kind does not have."""
    if not isinstance(value, Mapping) or kind.full_name.startswith("google.protobuf."):
        return value  # ParseDict says what is wrong
    known = {name: field for field in kind.fields for name in (field.name, field.json_name)}
    form = {}
    for name, one in value.items():
        at = f"{path}.{name}" if path else str(name)
        field = known.get(name)
        if field is None:
            close = difflib.get_close_matches(str(name), [f.json_name for f in kind.fields], 1)
            wrong.append(Violation(at, "unknown field" + (f", did you mean {json.dumps(close[0])}?" if close else "")))
        elif isinstance(one, (list, tuple)):
            form[name] = [_element(e, field, f"{at}[{i}]", wrong) for i, e in enumerate(one)]
        elif isinstance(one, Mapping) and field.message_type is not None and field.message_type.GetOptions().map_entry:
            values = field.message_type.fields_by_name["value"]
            form[name] = {key: _element(e, values, f"{at}.{key}", wrong, field.name) for key, e in one.items()}
        else:
            form[name] = _element(one, field, at, wrong)
    return form


def _element(value: Any, field: FieldDescriptor, path: str, wrong: list[Violation], name: str = "") -> Any:
    if field.message_type is not None:
        return json_format.MessageToDict(value) if isinstance(value, Message) else _form(value, field.message_type, path, wrong)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and (name or field.name) in _QUANTITIES and field.type == FieldDescriptor.TYPE_STRING:
        return json.dumps(value)
    return value
