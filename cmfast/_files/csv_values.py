"""Infer the type of csv columns (booleans, numbers or text) from all their texts, as pandas does."""

import re
from collections.abc import Mapping
from typing import Any

from cmfast._files.output import FileError
from cmfast._files.stores import Source

MOST_INTEGER_DIGITS = 600  # longest text parsed as an integer; Python always accepts 640 digits
TRUTHS = {"true": True, "false": False}
GAPS = frozenset(("#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "n/a", "nan", "null"))
GAPS_OF_NUMBERS = GAPS | {"None"}  # in text columns "None" is more often a class than a missing value
NO_LABEL = "which is no class label; give a column of labels (argmax makes labels of probabilities)"
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)

Lines = Mapping[str, int]  # text -> line of its first occurrence


def is_integer(text: str) -> bool:
    """Whether `text` is a decimal integer."""
    return text.isascii() and text.removeprefix("-").isdecimal()


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_count(text: str) -> bool:
    """Whether a text is a number of at least 0."""
    return is_number(text) and float(text) >= 0


def parse_labels(path: Source, y_true: Lines, y_pred: Lines) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse the texts of truth and prediction as labels of one kind; equal numbers are one label.

    Raises
    ------
    FileError
        A text that marks a missing label; a number that is not whole; a text column and a numeric column without common
        labels, or with different spellings of the same number.
    """
    columns = (y_true, y_pred)
    kinds = [_infer_kind(texts) for texts in columns]
    for texts, kind in zip(columns, kinds, strict=True):
        _refuse_gaps(path, texts, GAPS if kind == "strings" else GAPS_OF_NUMBERS)
    if "strings" in kinds:
        if kinds[0] != kinds[1]:
            _check_texts(path, y_true, y_pred, kinds)
        return {text: text for text in y_true}, {text: text for text in y_pred}
    found = [{text: _parse_class_id(path, text, line) for text, line in texts.items()} for texts in columns]
    if kinds == ["booleans"] * 2:
        found = [{text: bool(value) for text, value in values.items()} for values in found]
    return found[0], found[1]


def parse_groups(path: Source, texts: Lines) -> dict[str, Any]:
    """Parse the texts of a group column: all booleans, all numbers, or all text."""
    told = ColumnKind()
    told.add(texts)
    told.check(path)
    return {text: told.value(text) for text in texts}


class ColumnKind:
    """Type of a group column, inferred from all its texts, which may be added in parts."""

    def __init__(self) -> None:
        self._some = False  # whether any text is not a missing value
        self._truths = self._numbers = self._whole = True
        self._gap: tuple[str, int] | None = None

    def add(self, texts: Lines) -> None:
        """Narrow the type by more texts; remember the line of the first missing value."""
        for text, line in texts.items():
            if text in GAPS_OF_NUMBERS:
                self._gap = self._gap or (text, line)
                continue
            self._some = True
            self._truths = self._truths and _is_truth(text)
            self._numbers = self._numbers and bool(_NUMBER.fullmatch(text)) and len(text) <= MOST_INTEGER_DIGITS
            self._whole = self._whole and self._numbers and isinstance(_parse_number(text), int)

    @property
    def kind(self) -> str:
        """The kind of all texts that are not missing values."""
        if self._some and self._truths:
            return "booleans"
        return "integers" if self._some and self._numbers else "strings"

    def check(self, path: Source) -> None:
        """Raise FileError for missing values in a column of numbers or booleans."""
        if self.kind != "strings" and self._gap is not None:
            _refuse_gaps(path, dict([self._gap]), GAPS_OF_NUMBERS)

    def value(self, text: str) -> Any:
        """Return the value that a text represents."""
        if self.kind == "strings":
            return text
        if self.kind == "booleans":
            return TRUTHS[text.lower()]
        return _parse_number(text) if self._whole else float(_parse_number(text))


def _infer_kind(texts: Lines) -> str:
    """Return the kind of a column with these texts."""
    told = ColumnKind()
    told.add(texts)
    return told.kind


def _is_truth(text: str) -> bool:
    """Whether a text is a boolean: true, TRUE, True, false, ..."""
    return text.lower() in TRUTHS and text in (text.lower(), text.upper(), text.capitalize())


def _parse_number(text: str) -> int | float:
    """Parse a number: an int if it is whole."""
    if is_integer(text.removeprefix("+")):
        return int(text)
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2.0**53 else value


def _parse_class_id(path: Source, text: str, line: int) -> int:
    """Parse a class id; raise FileError if it is not whole."""
    value = TRUTHS[text.lower()] if _is_truth(text) else _parse_number(text)
    if isinstance(value, float):
        raise FileError(path, f"line {line} holds {text}, {NO_LABEL}")
    return int(value)


def _refuse_gaps(path: Source, texts: Lines, gaps: frozenset[str]) -> None:
    """Raise FileError if a text marks a missing value."""
    for text, line in texts.items():
        if text in gaps:
            raise FileError(
                path, f"line {line} holds {text}, which stands for a missing label; a class must have another name"
            )


def _check_texts(path: Source, y_true: Lines, y_pred: Lines, kinds: list[str]) -> None:
    """Raise FileError for comparing text with numbers, unless they share labels and no number has two spellings."""
    differ = f"the truth holds {kinds[0]}, but the prediction {kinds[1]}"
    written: dict[int | float, str] = {}
    for text in (*y_true, *y_pred):
        if _is_truth(text) or (_NUMBER.fullmatch(text) and len(text) <= MOST_INTEGER_DIGITS):
            value = TRUTHS[text.lower()] if _is_truth(text) else _parse_number(text)
            other = written.setdefault(value, text)
            if other != text:
                raise FileError(path, f"{differ}, and {other} and {text} would be two classes; write them alike")
    commas = {text: line for one in (y_true, y_pred) for text, line in one.items() if _DECIMAL_COMMA.fullmatch(text)}
    if commas and "integers" in kinds:
        text, line = next(iter(commas.items()))
        raise FileError(path, f"line {line} holds {text}, a number with a decimal comma, {NO_LABEL}")
    if not set(y_true) & set(y_pred):
        raise FileError(path, f"{differ}, and no label is in both")
