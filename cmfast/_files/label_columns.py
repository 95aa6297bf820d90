"""Choose the columns of truth, prediction and groups of a table: as named, by a usual name, or the only ones left."""

from cmfast._core import validate
from cmfast._files.output import FileError
from cmfast._files.stores import Source

TRUE_NAMES = ("y_true", "true", "truth", "label", "labels", "target", "actual", "y")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
PRED_NAMES = ("y_pred", "pred", "predicted", "prediction", "predictions", "y_hat")

Wanted = tuple[str | None, ...]  # names or numbers of columns: truth, prediction, optional groups


def choose_columns(path: Source, names: list[str], wanted: Wanted) -> list[int]:
    """Return the positions of the columns: as named, else by a usual name, else the remaining ones if unambiguous."""
    given = [None if name is None else parse_column(path, names, name) for name in wanted]
    if len(names) < len(wanted):
        what = (
            "two columns, truth and prediction" if len(wanted) == 2 else "a column for each: truth, prediction, group"
        )
        raise FileError(path, f"needs {what}, but has {len(names)}")
    if given[0] is not None and given[0] == given[1]:
        raise FileError(path, f"truth and prediction are both column {names[given[0]]!r}; give --true and --pred")
    for k, place in enumerate(given[2:]):
        if place is not None and place in given[:2]:
            raise FileError(path, f"column {names[place]!r} cannot be --by and --true or --pred")
        if place is not None and place in given[2 : 2 + k]:
            raise FileError(path, f"column {names[place]!r} is given to --by twice")
    free = [k for k in range(len(names)) if k not in given]
    doubts = []
    for which, usual in enumerate((TRUE_NAMES, PRED_NAMES)):
        alike = [k for k in free if names[k].lower() in usual]
        if given[which] is None and len(alike) == 1:
            given[which] = alike[0]
            free.remove(alike[0])
        elif given[which] is None and alike:
            several = " and ".join(names[k] for k in alike)
            doubts.append(f", and {several} may each be the {('truth', 'prediction')[which]}")
    if given.count(None) < len(free) and None in given:
        options = " and ".join(name for name, place in zip(("--true", "--pred"), given, strict=False) if place is None)
        what = f"has {len(names)} columns{''.join(doubts)}; give {options} (has: {', '.join(names)})"
        raise FileError(path, what, _propose_options(names, given[:2], free))
    return [free.pop(0) if place is None else place for place in given]


def choose_models(path: Source, names: list[str], true: str | None, preds: list[str], n_models: int) -> list[str]:
    """Return the columns of truth and of the predictions of `n_models` models, or more, by name or number.

    Those that are not given have a usual name or are the only ones left; if not, a FileError proposes some.
    """
    preds = [part for name in preds for part in _split_names(names, name)]
    if n_models == 1:
        places = choose_columns(path, names, (true, preds[0] if preds else None))
        return [*(_write_column(names, k) for k in places), *preds[1:]]
    given: list[int | None] = [None if true is None else parse_column(path, names, true)]
    given += [parse_column(path, names, name) for name in preds] + [None] * (n_models - len(preds))
    free = [k for k in range(len(names)) if k not in given]
    usual = [k for k in free if names[k].lower() in TRUE_NAMES]
    if given[0] is None and len(usual) == 1:
        given[0] = usual[0]
        free.remove(usual[0])
    columns = [place for place in given if place is not None]
    if len(columns) == len(given):
        return [_write_column(names, k) for k in columns]
    if len(free) < given.count(None):
        raise FileError(path, f"needs a column of truth and one for each model (has: {', '.join(names)})")
    wanted = ["--true"] * (given[0] is None) + ["--pred twice, once for each model"] * (None in given[1:])
    what = f"give {' and '.join(wanted)} (has: {', '.join(names)})"
    raise FileError(path, what, _propose_options(names, given, free))


def _propose_options(names: list[str], given: list[int | None], free: list[int]) -> list[str]:
    """Return options for the columns of truth and predictions that are not given: the first ones that are free."""
    free = list(free)
    options = ["--true", *["--pred"] * (len(given) - 1)]
    missing = [option for option, place in zip(options, given, strict=True) if place is None]
    columns = [_write_column(names, free.pop(0)) for _ in missing]
    return [
        word
        for option, column in zip(missing, columns, strict=True)
        for word in ([f"{option}={column}"] if column.startswith("-") else [option, column])
    ]


def _write_column(names: list[str], place: int) -> str:
    """Return the name of a column, or its number if several have this name or it has none."""
    return names[place] if names[place] and names.count(names[place]) == 1 else str(place)


def parse_column(path: Source, names: list[str], wanted: str) -> int:
    """Return the position of a column given by name or number."""
    if wanted in names:
        return find_column(path, names, wanted)
    if wanted.isdecimal() and len(wanted) < 10 and int(wanted) < len(names):
        return int(wanted)
    raise _missing_column(path, names, wanted)


def _missing_column(path: Source, names: list[str], wanted: str) -> FileError:
    """Return the error for a column that a table lacks: the columns that it has, and a name nearby.

    If no name is near, the first line of a text may be data: it then has numbers for columns.
    """
    cure = "; give one of them" if len(_split_names(names, wanted)) > 1 else ""
    near = validate.suggest_name(wanted, names)
    if not near and not cure and path.suffix.lower() in TEXT_SUFFIXES:
        near = "; if its first line names no columns, give --no-header and numbers, from 0"
    return FileError(path, f"has no column {wanted!r}{cure} (has: {', '.join(names)}){near}")


def _split_names(names: list[str], wanted: str) -> list[str]:
    """Return the columns that one text with commas names; the text itself if it is a column, or one of them is none."""
    parts = [part.strip() for part in wanted.split(",")]
    return [wanted] if wanted in names or not set(parts) <= set(names) else parts


def find_column(path: Source, names: list[str], wanted: str) -> int:
    """Return the position of the column `wanted`; raise FileError if no column, or several, have this name."""
    if wanted not in names:
        near = validate.suggest_name(wanted, names)
        raise FileError(path, f"has no column {wanted!r} (has: {', '.join(names)}){near}")
    if names.count(wanted) > 1:
        raise FileError(path, f"has {names.count(wanted)} columns named {wanted!r}; give their numbers, from 0")
    return names.index(wanted)
