"""Files of any size in so much memory and no more, as the system limits it: labels, matrices, groups."""

import sys
from contextlib import nullcontext
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from processes import python
from pyarrow import feather, parquet

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")]

FEW, MANY = 300_000, 6_000_000  # rows: more than one block, so that all is compiled; and those that do not fit
ROOM = 64  # MiB, beside what the process has loaded; the numbers alone are 96, and of csv, as Python's objects, more

# Pages of a file that is mapped are not the process's own. Arrow's usual allocator reserves more than it uses.
LIMITED = """
import re, resource, sys
from pathlib import Path
from cmfast.cli import main

few, many, room, *options = sys.argv[1:]
for _ in range(2):  # what was compiled leaves holes, which a second run fills
    assert main([option.replace("@", few) for option in options]) == 0
used = 1024 * int(re.search(r"VmData:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + int(room) * 2**20, -1))
sys.exit(main([option.replace("@", many) for option in options]))
"""


def within(folder, few, many, room, *options):
    """Return what a command prints of a file of `many`, with no more than `room` MiB more than one of `few` takes."""
    numbers = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    every = (*options, "--force", "--quiet", "--threads", "1")
    return python("-c", LIMITED, few, many, str(room), *every, cwd=folder, **numbers)


def labels(n):
    """Return two columns of labels, and their counts."""
    rng = np.random.default_rng(n)
    y, p = rng.integers(0, 4, n), rng.integers(0, 4, n)
    return y, p, np.bincount(4 * y + p, minlength=16).reshape(4, 4)


def write_csv(path, y, p):
    """Write columns, in the order of the rows."""
    with path.open("w", encoding="ascii") as file:
        file.write("y_true,y_pred\n")
        file.writelines(f"{a},{b}\n" for a, b in zip(y.tolist(), p.tolist(), strict=True))


def arrow(y, p):
    """Return columns as a table."""
    return pa.table({"y_true": y, "y_pred": p})


WRITERS = {
    "npy": lambda path, y, p: np.save(path, np.stack([y, p], axis=1)),
    "parquet": lambda path, y, p: parquet.write_table(
        arrow(y, p), path, row_group_size=len(y), use_dictionary=False, compression="none"
    ),
    "arrow": lambda path, y, p: feather.write_feather(arrow(y, p), path, "uncompressed", chunksize=len(y)),
    "feather": lambda path, y, p: feather.write_feather(arrow(y, p), path, "zstd"),
    "csv": write_csv,
}


@pytest.mark.parametrize("form", WRITERS)
def test_labels_of_any_number(tmp_path, form):
    for name, n in (("few", FEW), ("many", MANY // 4 if form == "csv" else MANY)):
        y, p, matrix = labels(n)
        WRITERS[form](tmp_path / f"{name}.{form}", y, p)
    columns = ["--true", "0", "--pred", "1"] if form == "npy" else []
    _ = within(tmp_path, "few", "many", ROOM, "confusion", f"@.{form}", *columns, "-o", "@.matrix.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "many.matrix.npy"), matrix)


@pytest.mark.parametrize(("mb", "said"), [("2", None), ("1024", "memory")])
def test_groups_of_any_number(tmp_path, mb, said):
    users = {"few": 4000, "many": 110_000}
    for name, n in users.items():
        y, p, _ = labels(3 * n)
        table = arrow(y, p).append_column("user", pa.array([f"user {k % n}" for k in range(3 * n)]))
        parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=1 << 16)
    options = ["metrics", "@.parquet", "--by", "user", "--only", "accuracy", "-o", "@.csv"]
    options += ["--block-mb", "1", "--group-mb", mb]
    with nullcontext() if said is None else pytest.raises(AssertionError, match=said):
        _ = within(tmp_path, "few", "many", ROOM, *options)
    assert (tmp_path / "many.csv").exists() == (said is None), "whole or not at all"
    if said is None:
        lines = (tmp_path / "many.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines[1:]] == sorted(f"user {k}" for k in range(users["many"]))


MATRIX = np.array([[5, 1, 0], [2, 6, 1], [0, 0, 3]])


@pytest.mark.parametrize(
    ("form", "command"),
    [*product(["zarr", "parquet", "csv"], ["normalize", "metrics"]), ("zarr", "intervals")],
)
def test_matrices_of_any_number(tmp_path, form, command):
    import zarr

    for name, n in (("few", 100_000), ("many", 300_000 if form == "csv" else 1_000_000)):
        M = np.broadcast_to(MATRIX, (n, 3, 3))
        if form == "zarr":
            zarr.create_array(tmp_path / f"{name}.zarr", data=np.ascontiguousarray(M), chunks=(10_000, 3, 3))
        elif form == "parquet":
            rows = pa.FixedSizeListArray.from_arrays(M.ravel(), 9)
            parquet.write_table(pa.table({"M": rows}), tmp_path / f"{name}.parquet", row_group_size=n)
        else:
            (tmp_path / f"{name}.csv").write_text("5,1,0,2,6,1,0,0,3\n" * n)
    options = ["--cells", "M"] if form == "parquet" else []
    if command == "intervals":
        command, options = "metrics", ["--interval", "--method", "normal", "--only", "mcc", "-o", "@.table.parquet"]
    elif command == "metrics":
        if form == "csv":
            for name in ("few", "many"):
                lines = (tmp_path / f"{name}.csv").read_text()
                (tmp_path / f"{name}.csv").write_text("a,b,c,d,e,f,g,h,i\n" + lines)
            options = ["--cells", *"abcdefghi"]
        options += ["--only", "accuracy", "-o", "@.table.parquet"]
    else:
        options += ["--method", "row", "-o", "@.npy"]
    _ = within(tmp_path, "few", "many", ROOM, command, f"@.{form}", *options, "--block-mb", "2")
    if command == "metrics":
        found = parquet.read_metadata(tmp_path / "many.table.parquet").num_rows
    else:
        found = len(np.load(tmp_path / "many.npy", mmap_mode="r"))
    assert found == n
