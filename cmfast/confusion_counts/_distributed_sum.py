"""Sum confusion counts over the processes of torch.distributed."""

from typing import Any

from cmfast._core.adapters import _distributed, adapter
from cmfast.confusion_counts._state import CountsState, check_integers, merge_counts, reindex_matrix


def sum_processes(held: CountsState, group: Any) -> CountsState:
    """Return the sum over all processes: exchange labels and groups, then add matrices of one common shape."""
    place = _distributed.describe_location(held.matrix)
    floats = held.matrix is not None and adapter(held.matrix).dtype(held.matrix).kind == "f"
    heads = _distributed.gather_objects(
        (held.axis, held.keys, place, floats, 0 if held.matrix is None else held.most), group
    )
    if heads is None:
        return held
    every = CountsState(heads[0][0], heads[0][1], None)
    for axis, keys, *_ in heads[1:]:  # in rank order, so that all processes agree on the order of labels
        every = merge_counts(every, CountsState(axis, keys, None))
    places = [head[2] for head in heads if head[2] is not None]
    if not places:
        return every
    part = None if held.matrix is None else reindex_matrix(held, every)
    options = {"floats": any(head[3] for head in heads), "group": group, "most": sum(head[4] for head in heads)}
    matrix = _distributed.sum_over_processes(part, every.shape(), place or places[0], **options)
    return check_integers(every._replace(matrix=matrix, most=options["most"]))
