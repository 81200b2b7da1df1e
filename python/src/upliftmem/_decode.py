"""JSON into dataclasses: unknown fields are ignored, so that newer servers can say more."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from .errors import BadAnswer

T = TypeVar("T")


def decoder(kind: type[T]) -> Callable[[Any], T]:
    """A function that makes a `kind` of a JSON value, or raises `BadAnswer` with the place of what is wrong."""

    def decode(value: Any) -> T:
        return typing.cast("T", _decode(kind, value, kind.__name__))

    return decode


@cache
def _fields(kind: type) -> list[tuple[str, Any, bool]]:
    hints = typing.get_type_hints(kind)
    return [
        (
            field.name,
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    ]


def _decode(kind: Any, value: Any, place: str) -> Any:
    if kind is Any:
        return value
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        # The only unions are with None.
        if value is None:
            return None
        (inner,) = (choice for choice in typing.get_args(kind) if choice is not type(None))
        return _decode(inner, value, place)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(place, "a list", value)
        (inner, _) = typing.get_args(kind)
        return tuple(_decode(inner, item, f"{place}[{index}]") for index, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(place, "an object", value)
        (_, inner) = typing.get_args(kind)
        return {key: _decode(inner, item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise _wrong(place, "an object", value)
        known = {}
        for name, hint, required in _fields(typing.cast("type", kind)):
            if name in value:
                known[name] = _decode(hint, value[name], f"{place}.{name}")
            elif required:
                raise BadAnswer(f"{place}.{name} is missing in the server's answer; are its versions the same?")
        return kind(**known)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _wrong(place, kind.__name__, value)
    return value


def _wrong(place: str, wanted: str, value: Any) -> BadAnswer:
    return BadAnswer(f"{place} is {type(value).__name__} in the server's answer where {wanted} was promised")
