"""Run an example and save what it computed: ``python engine.py EXAMPLE OUT``."""

import os
import runpy
import sys
from importlib.util import find_spec

NEEDS = {
    "federated_http": "sklearn",
    "on_dask": "dask",
    "on_joblib": "joblib",
    "on_mpi": "mpi4py",
    "on_multiprocessing": "multiprocessing",
    "on_ray": "ray",
    "on_spark": "pyspark",
    "on_torch_distributed": "torch",
    "with_xarray": "xarray",
}


def missing(example: str) -> str | None:
    """Return why an example cannot run here; None where it can, or has to."""
    if find_spec(NEEDS[example]) is None and not os.environ.get("CMFAST_REQUIRE_ENGINES"):
        return f"no {NEEDS[example]} here (.ci/run engines installs it)"
    return None


if __name__ == "__main__":
    runpy.run_path(sys.argv[1], run_name="__main__")["counts"].save(sys.argv[2])
