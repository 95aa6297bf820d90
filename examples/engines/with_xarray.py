"""Count labels in xarray: a matrix for every model and region, lazily."""

import numpy as np
import xarray as xr

import cmfast

rng = np.random.default_rng(0)
truth = xr.DataArray(
    rng.integers(0, 4, (3, 5000)), dims=("region", "sample")
)
wrong = (
    xr.DataArray(
        rng.random((2, 3, 5000)),
        {"model": ["old", "new"]},
        ("model", "region", "sample"),
    )
    < 0.2
)
guess = xr.where(wrong, (truth + 1) % 4, truth).chunk(
    model=1, region=1, sample=-1
)

matrices = xr.apply_ufunc(
    cmfast.confusion_matrix,
    truth.broadcast_like(guess).chunk(guess.chunksizes),
    guess,
    kwargs={"n_classes": 4, "num_threads": 1},
    input_core_dims=[["sample"], ["sample"]],
    output_core_dims=[["true", "predicted"]],
    dask="parallelized",
    output_dtypes=[np.int64],
    dask_gufunc_kwargs={"output_sizes": {"true": 4, "predicted": 4}},
)
print(matrices.data)  # still lazy
matrices = matrices.compute()
print(cmfast.metrics.mcc(matrices))
assert (
    matrices.sel(model="new")[1]
    == cmfast.confusion_matrix(
        truth[1], guess.sel(model="new")[1].compute()
    )
).all()
