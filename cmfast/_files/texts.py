"""What the texts of a csv file stand for: truths, numbers or text, told by all of a column, as pandas tells it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cmfast._files.output import FileError

MOST_INTEGER_DIGITS = 600  # of a text that may be an integer; Python reads 640 whatever its settings
TRUTHS = {"true": True, "false": False}
GAPS = frozenset(("#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "n/a", "nan", "null"))
GAPS_OF_NUMBERS = GAPS | {"None"}  # which among texts is a class more often than a gap
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)

Lines = Mapping[str, int]  # text -> the line where it stands first


def is_integer(text: str) -> bool:
    """Return whether `text` is an integer as people write it."""
    return text.isascii() and text.removeprefix("-").isdecimal()


def labels(path: Path, y_true: Lines, y_pred: Lines) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the labels that the texts of truth and prediction stand for: numbers that are equal are one label.

    Raises
    ------
    FileError
        A text that stands for a missing label; a number that is not whole; a column of text beside one of numbers, if
        they have nothing in common, or something that is the same number and not the same text.
    """
    columns = (y_true, y_pred)
    kinds = [_kind(texts) for texts in columns]
    for texts, kind in zip(columns, kinds, strict=True):
        _refuse_gaps(path, texts, GAPS if kind == "strings" else GAPS_OF_NUMBERS)
    if "strings" in kinds:
        if kinds[0] != kinds[1]:
            _check_texts(path, y_true, y_pred, kinds)
        return {text: text for text in y_true}, {text: text for text in y_pred}
    found = [{text: _whole(path, text, line) for text, line in texts.items()} for texts in columns]
    if kinds == ["booleans"] * 2:
        found = [{text: bool(value) for text, value in values.items()} for values in found]
    return found[0], found[1]


def groups(path: Path, texts: Lines) -> dict[str, Any]:
    """Return what the texts of a column of groups stand for; any number may be one, and any text."""
    told = Told()
    told.add(texts)
    told.check(path)
    return {text: told.value(text) for text in texts}


class Told:
    """What the texts of a column of groups are, which all of them tell together; they may come part by part."""

    def __init__(self) -> None:
        self._some = False  # that stand for something in a column of numbers
        self._truths = self._numbers = self._whole = True
        self._gap: tuple[str, int] | None = None

    def add(self, texts: Lines) -> None:
        """Take in texts with their lines."""
        for text, line in texts.items():
            if text in GAPS_OF_NUMBERS:
                self._gap = self._gap or (text, line)
                continue
            self._some = True
            self._truths = self._truths and _is_truth(text)
            self._numbers = self._numbers and bool(_NUMBER.fullmatch(text)) and len(text) <= MOST_INTEGER_DIGITS
            self._whole = self._whole and self._numbers and isinstance(_number(text), int)

    @property
    def kind(self) -> str:
        """What all texts are, but for those that stand for nothing."""
        if self._some and self._truths:
            return "booleans"
        return "integers" if self._some and self._numbers else "strings"

    def check(self, path: Path) -> None:
        """Refuse what stands for nothing, unless it is text among others."""
        if self.kind != "strings" and self._gap is not None:
            _refuse_gaps(path, dict([self._gap]), GAPS_OF_NUMBERS)

    def value(self, text: str) -> Any:
        """Return what a text stands for."""
        if self.kind == "strings":
            return text
        if self.kind == "booleans":
            return TRUTHS[text.lower()]
        return _number(text) if self._whole else float(_number(text))


def _kind(texts: Lines) -> str:
    told = Told()
    told.add(texts)
    return told.kind


def _is_truth(text: str) -> bool:
    return text.lower() in TRUTHS and text in (text.lower(), text.upper(), text.capitalize())


def _number(text: str) -> int | float:
    """Return a number: an int where it is whole."""
    if is_integer(text.removeprefix("+")):
        return int(text)
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2.0**53 else value


def _whole(path: Path, text: str, line: int) -> int:
    """Return the class id that a text is."""
    value = TRUTHS[text.lower()] if _is_truth(text) else _number(text)
    if isinstance(value, float):
        raise FileError(path, f"line {line} holds {text}, which is no class label")
    return int(value)


def _refuse_gaps(path: Path, texts: Lines, gaps: frozenset[str]) -> None:
    for text, line in texts.items():
        if text in gaps:
            raise FileError(
                path, f"line {line} holds {text}, which stands for a missing label; a class must have another name"
            )


def _check_texts(path: Path, y_true: Lines, y_pred: Lines, kinds: list[str]) -> None:
    """Refuse to compare text with numbers, unless they have labels in common, and none that is written twice."""
    differ = f"the truth holds {kinds[0]}, but the prediction {kinds[1]}"
    written: dict[int | float, str] = {}
    for text in (*y_true, *y_pred):
        if _is_truth(text) or (_NUMBER.fullmatch(text) and len(text) <= MOST_INTEGER_DIGITS):
            value = TRUTHS[text.lower()] if _is_truth(text) else _number(text)
            other = written.setdefault(value, text)
            if other != text:
                raise FileError(path, f"{differ}, and {other} and {text} would be two classes; write them alike")
    if not set(y_true) & set(y_pred):
        raise FileError(path, f"{differ}, and no label is in both")
