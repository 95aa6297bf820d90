"""Read columns of pandas, polars and Arrow: dictionary codes, categories and missing values."""

import sys
from typing import Any, NamedTuple

import numpy as np

from cmfast._core import caller
from cmfast._core.adapters import _class_order, _text_codes
from cmfast.kernels.loading import find_loaded_module

# Names of columns of labels, which no class of a confusion matrix has.
TRUTHS = frozenset(
    ("y_true", "y", "label", "labels", "target", "targets", "truth", "true", "true_label", "ground_truth")
)
GUESSES = frozenset(
    ("y_pred", "y_hat", "pred", "preds", "prediction", "predictions", "predicted", "guess", "predicted_label")
)
UNNAMED = "Unnamed: 0"  # as pandas calls the first column of a file if its header has no name for it
MATRIX_NAMES = ("M", "A", "B")
_FRAMES = {"pandas": {"DataFrame"}, "polars": {"DataFrame", "LazyFrame"}, "pyarrow": {"Table", "RecordBatch"}}


def list_names(x: Any) -> list[Any]:
    """Return the names of the columns of table `x`; none for a lazy table, and for what is no table."""
    x = unwrap_narwhals(x)
    base = _table_class(x)
    if base is None or base.__name__ == "LazyFrame":  # reading its column names may compute it
        return []
    return list(x.column_names if base.__module__.startswith("pyarrow") else x.columns)


def column_hint(x: Any) -> str | None:
    """Return an example of how the library of table `x` selects a column; None if `x` is not a table."""
    base = _table_class(unwrap_narwhals(x))
    if base is None:
        return None
    if base.__name__ == "LazyFrame":
        return ".collect()['name']"
    names = list_names(x)
    return f"[{names[0] if names else 'name'!r}]"


def library_name(x: Any) -> str | None:
    """Return the library of the table `x`; None if `x` is not a table or is lazy."""
    base = _table_class(x)
    return None if base is None or base.__name__ == "LazyFrame" else base.__module__.partition(".")[0]


def unwrap_narwhals(x: Any) -> Any:
    """Return the table that a DataFrame or LazyFrame of narwhals wraps; anything else unchanged."""
    is_wrapped = type(x).__module__.partition(".")[0] == "narwhals" and hasattr(x, "to_native")
    return x.to_native() if is_wrapped else x


def collect_table(x: Any) -> Any:
    """Return the table that a lazy table or a stream of Arrow holds; anything else unchanged.

    Lazy tables are those of polars. Streams, such as relations of DuckDB, become a Table of Arrow. Tables of narwhals
    are those that they wrap.
    """
    x = unwrap_narwhals(x)
    base = _table_class(x)
    if base is not None and base.__name__ == "LazyFrame":
        return x.collect()
    library, name = type(x).__module__.partition(".")[0], type(x).__name__
    of_columns = (
        library in ("pandas", "polars", "pyarrow") or name == "DataArray"
    )  # columns and arrays are streams, too
    is_stream = hasattr(type(x), "__arrow_c_stream__") and (not of_columns or name == "RecordBatchReader")
    if not is_stream:
        return x
    import pyarrow as pa

    table = pa.table(x)
    if name == "RecordBatchReader" and not table.num_rows:
        from cmfast._core import failures  # which imports the adapters

        failures.warn_diagnostic(
            "the RecordBatchReader has no rows; it gives them only once, and reader.read_all() makes a table to "
            "read again"
        )
    return table


def _table_class(x: Any) -> type | None:
    """Return the table class in the MRO of `x`'s type; None if `x` is not a table."""
    classes = (base for base in type(x).__mro__ if base.__name__ in _FRAMES.get(base.__module__.partition(".")[0], ()))
    return next(classes, None)


def dictionary_codes(name: str, x: Any) -> tuple[Any, np.ndarray] | None:
    """Return the distinct values and the code of each entry, if the library of column `x` has them; else None.

    A missing value raises ValueError, except in float columns: NumPy turns it into NaN, which kernels report.
    """
    for library, column in (("pandas", _pandas_codes), ("polars", _polars_codes), ("pyarrow", _arrow_codes)):
        module = find_loaded_module(library)  # a library that is not imported cannot own the column
        if module is not None:
            found: tuple[Any, np.ndarray] | None = column(name, module, x)
            if found is not None:
                return found
    return None


class Categories(NamedTuple):
    """A categorical column: its values in order, the code of each entry, and whether the order is meaningful."""

    values: list[Any]
    codes: np.ndarray
    ordered: bool


def categories(name: str, x: Any) -> Categories | None:
    """Return the categories of column `x` as its library keeps them; None if it declares none."""
    pd, pl, pa = map(find_loaded_module, ("pandas", "polars", "pyarrow"))
    dtype: Any = getattr(x, "dtype", None)
    if pd is not None and isinstance(dtype, pd.CategoricalDtype) and not isinstance(x, pd.MultiIndex):
        values = x if isinstance(x, pd.api.extensions.ExtensionArray) else x.array
        _refuse_missing(name, values.codes < 0, "nan")
        known = values.categories
        plain = known.dtype.kind in "biufM" if isinstance(known.dtype, np.dtype) else False
        return Categories(list(known.to_numpy() if plain else known), values.codes, bool(values.ordered))
    if pl is not None and isinstance(x, pl.Series) and isinstance(dtype, pl.Enum):
        _refuse_missing(name, x.is_null().to_numpy() if x.null_count() else np.empty(0), "null")
        return Categories(dtype.categories.to_list(), x.to_physical().to_numpy(), ordered=True)
    if pa is not None and isinstance(x, pa.Array | pa.ChunkedArray) and getattr(x.type, "ordered", False):
        found = _arrow_codes(name, pa, x)
        return None if found is None else Categories(list(found[0]), found[1], ordered=True)
    return None


def frame_to_array(name: str, x: Any) -> Any:
    """Convert a pandas table with numeric columns of several types to one array; return anything else unchanged.

    NumPy would make Python objects of nullable columns and of mixed bools and numbers. Missing values become NaN.

    Raises
    ------
    ValueError for a confusion matrix whose rows and columns are not the same classes.
    """
    pd = find_loaded_module("pandas")
    if pd is None or not isinstance(x, pd.DataFrame):
        pl = find_loaded_module("polars")
        if pl is not None and isinstance(x, pl.DataFrame):
            _refuse_label_columns(name, x.columns)
        return x
    _class_order.check_class_order(name, x.index, x.columns)
    _refuse_label_columns(name, x.columns, x.index)
    _refuse_column_of_names(name, x)
    _refuse_columns_of_text(name, x)
    dtypes = {getattr(dtype, "numpy_dtype", dtype) for dtype in x.dtypes}
    if not dtypes or not all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in dtypes):
        return x
    gaps = any(not isinstance(dtype, np.dtype) for dtype in x.dtypes) and bool(x.isna().to_numpy().any())
    together = np.result_type(*dtypes, *([np.float64] if gaps and not {d.kind for d in dtypes} & {"f"} else []))
    return x.to_numpy(dtype=together, **({"na_value": np.nan} if gaps else {}))


def fill_integer_gaps(x: Any) -> Any:
    """Return a column of integers with missing values as float64 with NaN, and anything else unchanged."""
    pd, pl, pa = map(find_loaded_module, ("pandas", "polars", "pyarrow"))
    if pd is not None and isinstance(x, pd.Series) and isinstance(x.dtype, pd.api.extensions.ExtensionDtype):
        return x.astype(np.float64) if x.dtype.kind in "iu" and x.hasnans else x
    if pl is not None and isinstance(x, pl.Series):
        return x.cast(pl.Float64) if x.dtype.is_integer() and x.null_count() else x
    if pa is not None and isinstance(x, pa.Array | pa.ChunkedArray):
        return x.cast(pa.float64(), safe=False) if pa.types.is_integer(x.type) and x.null_count else x
    return x


def _refuse_column_of_names(name: str, x: Any) -> None:
    """Raise TypeError for a matrix of pandas with the names of its rows in a column, as a file is read by default."""
    kinds = [getattr(dtype, "kind", "O") for dtype in x.dtypes]
    text = [column for column, kind in zip(x.columns, kinds, strict=True) if kind not in "biufc"]
    is_read_back = bool(kinds) and x.columns[0] == UNNAMED
    has_names = len(text) == 1 and (len(kinds) > 2 or text[0] == x.columns[0])
    if name not in MATRIX_NAMES or len(kinds) < 2 or not (is_read_back or has_names):
        return
    column = UNNAMED if is_read_back else text[0]
    cure = f"{name}.set_index({column!r}) takes it for these, as pandas.read_csv(path, index_col=0) does"
    msg = f"{name} must be values of one type, got {column!r}, a column with the names of the rows; {cure}"
    raise TypeError(msg)


def _refuse_columns_of_text(name: str, x: Any) -> None:
    """Raise TypeError for a table of pandas with two or more columns of text where a matrix is wanted."""
    text = [k for k in range(x.shape[1]) if len(x) and isinstance(x.iloc[0, k], str)]
    if name not in MATRIX_NAMES or len(text) < 2 or len(text) == x.shape[1]:
        return
    truth, guess = (x.columns[k] for k in text[:2])
    cure = f"count two of them: confusion_matrix(table, y_true={truth!r}, y_pred={guess!r})"
    msg = f"{name} must be a matrix, got a table with columns of labels; {cure}"
    raise TypeError(msg)


def _refuse_label_columns(name: str, columns: Any, index: Any = ()) -> None:
    """Raise TypeError for a table with a column of true and one of predicted labels, which is no matrix."""
    names = [str(column) for column in columns]
    truth, guess = (next((one for one in names if one.lower() in side), None) for side in (TRUTHS, GUESSES))
    is_unnamed = len(index) not in (0, 2) and list(index) == list(range(len(index)))  # so no square matrix
    if len(names) == 2 and is_unnamed and "0" not in names and caller.name().startswith("metrics."):
        truth, guess = names
    if name != "M" or truth is None or guess is None or list(map(str, index)) == names:
        return
    cure = f"count them: confusion_matrix(table, y_true={truth!r}, y_pred={guess!r})"
    msg = f"{name} must be a matrix, got a table with columns of labels; {cure}"
    raise TypeError(msg)


def _pandas_codes(name: str, pd: Any, x: Any) -> tuple[Any, np.ndarray] | None:
    """Return distinct values and codes of a pandas column; None if pandas has no codes for it."""
    if not isinstance(x, pd.Series | pd.Index | pd.api.extensions.ExtensionArray) or isinstance(x, pd.MultiIndex):
        return None
    dtype = x.dtype
    values = x if isinstance(x, pd.api.extensions.ExtensionArray) else x.array
    if isinstance(dtype, pd.CategoricalDtype):
        _refuse_missing(name, values.codes < 0, "nan")
        return _object_categories(values) if dtype.categories.dtype == object else (values.categories, values.codes)
    if isinstance(dtype, pd.ArrowDtype) or getattr(dtype, "storage", None) == "pyarrow":
        return _arrow_codes(name, sys.modules["pyarrow"], values.__arrow_array__())
    if isinstance(dtype, pd.api.extensions.ExtensionDtype) and dtype.kind in "biu":
        _refuse_missing(name, values.isna(), "<NA>")
    return None


def _object_categories(values: Any) -> tuple[Any, np.ndarray] | None:
    """Return texts and codes of a categorical of Python objects, ignoring unused categories; None if not text."""
    texts = list(values.categories)
    if texts and set(map(type, texts)) in ({str}, {bytes}):
        return texts, values.codes
    used = np.flatnonzero(np.bincount(values.codes, minlength=len(values.categories)))
    texts = list(values.categories[used])
    if not texts or len(set(map(type, texts))) > 1 or not isinstance(texts[0], str | bytes):
        return None  # the elements are checked one by one, and the first non-text is reported with its index
    places = np.empty(len(values.categories), np.int64)
    places[used] = np.arange(len(used))
    return texts, places[values.codes]


def _polars_codes(name: str, pl: Any, x: Any) -> tuple[Any, np.ndarray] | None:
    """Return distinct texts and codes of a polars text column; None for other columns."""
    if not isinstance(x, pl.Series):
        return None
    if not x.dtype.is_float() and x.null_count():
        _refuse_missing(name, x.is_null().to_numpy(), "null")
    if x.dtype == pl.Null:
        return _texts([]), np.empty(0, np.int64)
    if x.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Binary):
        return None
    if x.dtype == pl.Enum:
        return _texts(x.dtype.categories.to_list()), x.to_physical().to_numpy()
    distinct = x.unique(maintain_order=True)
    if x.dtype == pl.Categorical:  # physical codes, which may have gaps
        known, texts = distinct.to_physical().to_numpy(), distinct.cast(pl.String).to_list()
        if len(known) and known.max() < len(known):  # no gaps: the codes are positions already
            return [texts[k] for k in np.argsort(known).tolist()], x.to_physical().to_numpy()
        places = np.zeros(int(known.max(initial=0)) + 1, np.int64)
        places[known] = np.arange(len(known))
        return _texts(texts), places[x.to_physical().to_numpy()]
    numbers = pl.Series(range(len(distinct)), dtype=pl.Int64)
    codes = x.replace_strict(distinct, numbers, return_dtype=pl.Int64).cast(pl.Int64).to_numpy()
    return _texts((distinct if x.dtype == pl.Binary else distinct.cast(pl.String)).to_list()), codes


def _arrow_codes(name: str, pa: Any, x: Any) -> tuple[Any, np.ndarray] | None:
    """Return distinct texts and codes of an Arrow text column; None for other columns."""
    if not isinstance(x, pa.Array | pa.ChunkedArray):
        return None
    if pa.types.is_dictionary(x.type):
        parts = x.chunks if isinstance(x, pa.ChunkedArray) else [x]
        if any(part.dictionary.null_count for part in parts):  # a valid index may point to a missing dictionary value
            x = x.cast(x.type.value_type)
    if not pa.types.is_floating(x.type) and x.null_count:
        _refuse_missing(name, x.is_null().to_numpy(zero_copy_only=False), "null")
    if _is_text(x.type):
        found = _hash_arrow_texts(pa, x)
        if found is not None:
            return found
        x = x.dictionary_encode()
    elif not (pa.types.is_dictionary(x.type) and _is_text(x.type.value_type)):
        return None
    if not len(x):
        return _texts([]), np.empty(0, np.int64)
    if isinstance(x, pa.ChunkedArray):
        x = x.unify_dictionaries().combine_chunks()
    return _texts(x.dictionary.to_pylist()), x.indices.to_numpy()


def _hash_arrow_texts(pa: Any, x: Any) -> tuple[Any, np.ndarray] | None:
    """Return distinct texts and codes of an Arrow text column from its bytes; None for few, or another layout."""
    is_wide = pa.types.is_large_string(x.type) or pa.types.is_large_binary(x.type)
    if not (is_wide or pa.types.is_string(x.type) or pa.types.is_binary(x.type)):
        return None
    parts: list[Any] = []
    for part in x.chunks if isinstance(x, pa.ChunkedArray) else [x]:
        _, ends, data = part.buffers()
        if len(part):
            slots = np.frombuffer(ends, np.int64 if is_wide else np.int32)[part.offset : part.offset + len(part) + 1]
            text = np.frombuffer(data or b"", np.uint8)
            text.flags.writeable = False
            parts.append((text, slots, lambda new, part=part: part.take(pa.array(new)).to_pylist()))
    return _text_codes.encode_slices(parts)


def _is_text(type_: Any) -> bool:
    """Whether an Arrow type is text or binary."""
    return str(type_).startswith(("string", "large_string", "binary", "large_binary", "fixed_size_binary"))


def _texts(distinct: list[Any]) -> Any:
    """Return distinct texts, or an empty text array."""
    return distinct or np.empty(0, np.str_)


def _refuse_missing(name: str, missing: np.ndarray, value: str) -> None:
    """Raise ValueError if any value is missing."""
    bad = np.flatnonzero(missing)
    if bad.size:
        _text_codes.refuse_missing(name, bad.size, (bad[0],), value)
