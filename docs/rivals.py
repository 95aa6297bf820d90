"""Write ``rivals.md``: what other tools call converged, beside what cmfast says. Needs ``pip install ".[bench]"``."""

import contextlib
import io
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

import cmfast

ONES = np.ones(3)
NO_SUPPORT = np.array([[5.0, 1.0, 1.0], [2.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
WITH_NAN = np.array([[5.0, 1.0, 1.0], [2.0, np.nan, 1.0], [3.0, 1.0, 1.0]])
SLOW = np.array([[90.0, 1e-3], [3.001, 60.0]])
PLAIN = np.array([[90.0, 5.0, 5.0], [1.0, 30.0, 9.0], [2.0, 1.0, 7.0]])


def with_ipfn(M):
    """Scale with ipfn."""
    from ipfn import ipfn

    with contextlib.redirect_stdout(io.StringIO()):
        P, converged = ipfn.ipfn(M.copy(), [ONES, ONES], [[0], [1]], verbose=1).iteration()
    return P, f"`converged = {converged}`"


def with_humanleague(M):
    """Scale with humanleague."""
    import humanleague

    P, facts = humanleague.ipf(M, [np.array([0]), np.array([1])], [ONES, ONES])
    return P, f"`conv = {facts['conv']}` after {facts['iterations']} iteration"


def with_sinkhorn_knopp(M):
    """Scale with sinkhorn_knopp."""
    from sinkhorn_knopp.sinkhorn_knopp import SinkhornKnopp

    solver = SinkhornKnopp()
    P = solver.fit(M)
    return P, f"stopped by `{solver._stopping_condition}` after {solver._iterations} iterations"


def with_scikit_learn(M):
    """Scale as scikit-learn does sparse matrices."""
    from scipy.sparse import csr_matrix
    from sklearn.cluster._bicluster import _bistochastic_normalize

    return _bistochastic_normalize(csr_matrix(M)).toarray(), "returned without a word"


CASES = [
    ("ipfn", with_ipfn, NO_SUPPORT, "Two rows live in one column: no matrix has these zeros and these sums."),
    ("humanleague", with_humanleague, WITH_NAN, "A NaN."),
    (
        "sinkhorn_knopp",
        with_sinkhorn_knopp,
        SLOW,
        "Nearly decomposable, as good classifiers are: small cells move last.",
    ),
    ("scikit-learn", with_scikit_learn, PLAIN, "Nothing special; `SpectralBiclustering` does this to sparse input."),
]


def block(P):
    """Return a matrix as text."""
    return "\n".join("    " + "  ".join(f"{cell:10.3g}" for cell in row) for row in P)


def sums(P):
    """Return the sums of rows and columns in words."""
    return f"rows {', '.join(f'{s:.4g}' for s in P.sum(1))}; columns {', '.join(f'{s:.4g}' for s in P.sum(0))}"


def section(name, scale, M, remark):
    """Return the section of one rival."""
    P, said = scale(M)
    result = cmfast.ipf(M, on_failure="ignore")
    ours = cmfast.Status(result.status).name
    lines = [f"## {name} {version(name)}", "", remark, "", block(M), "", f"**{name}**: {said}.", "", block(P), ""]
    lines += [f"Sums: {sums(P)}.", ""]
    if result.status == cmfast.Status.CONVERGED:
        lines += [f"**cmfast**: {ours}, residual {result.residual:.0e}.", "", block(result.matrix), ""]
        lines += [f"Sums: {sums(result.matrix)}."]
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cmfast.ipf(M)
        lines += [f"**cmfast**: {caught[0].message}."]
    return "\n".join(lines)


def page():
    """Return the page."""
    head = [
        "# What others call converged",
        "",
        "Written by `python docs/rivals.py` from the releases named below, each on one matrix whose rows",
        "and columns shall sum to one. A tool that stops because nothing changes, or that looks at sums alone, reports",
        "success on matrices that have no answer, or before the small cells have moved.",
    ]
    return "\n".join(head) + "\n\n" + "\n\n".join(section(*case) for case in CASES) + "\n"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    (Path(__file__).parent / "rivals.md").write_text(page())
