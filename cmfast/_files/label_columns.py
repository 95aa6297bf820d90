"""Choose the columns of truth, prediction and groups of a table: as named, by a usual name, or the only ones left."""

from cmfast._files.output import FileError
from cmfast._files.stores import Source

TRUE_NAMES = ("y_true", "true", "truth", "label", "labels", "target", "actual", "y")
PRED_NAMES = ("y_pred", "pred", "predicted", "prediction", "predictions", "y_hat")

Wanted = tuple[str | None, ...]  # names or numbers of columns: truth, prediction, optional groups


def choose_columns(path: Source, names: list[str], wanted: Wanted) -> list[int]:
    """Return the positions of the columns: as named, else by a usual name, else the remaining ones if unambiguous."""
    given = [None if name is None else _parse_column(path, names, name) for name in wanted]
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
        raise FileError(path, f"has {len(names)} columns{''.join(doubts)}; give {options} (has: {', '.join(names)})")
    return [free.pop(0) if place is None else place for place in given]


def _parse_column(path: Source, names: list[str], wanted: str) -> int:
    """Return the position of a column given by name or number."""
    if wanted in names:
        return find_column(path, names, wanted)
    if wanted.isdecimal() and len(wanted) < 10 and int(wanted) < len(names):
        return int(wanted)
    raise FileError(path, f"has no column {wanted!r} (has: {', '.join(names)})")


def find_column(path: Source, names: list[str], wanted: str) -> int:
    """Return the position of the column `wanted`; raise FileError if no column, or several, have this name."""
    if wanted not in names:
        raise FileError(path, f"has no column {wanted!r} (has: {', '.join(names)})")
    if names.count(wanted) > 1:
        raise FileError(path, f"has {names.count(wanted)} columns named {wanted!r}; give their numbers, from 0")
    return names.index(wanted)
