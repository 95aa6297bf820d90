"""The steps of one table as kernels of their own, for tables whose Newton system is solved by Python.

Small tables take the same steps inside one kernel, which compiles them once, without a wrapper for each that unpacks
the arrays of a workspace.
"""

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.cpu.margins.tables import newton, results, workspace


@jit()
def allocate_table(n_cells, n_margins, n_closed, n_lines, n_unknowns):
    """Run :func:`workspace.allocate_table`."""
    return workspace.allocate_table(n_cells, n_margins, n_closed, n_lines, n_unknowns)


@jit()
def start_table(t, cells, layout, targets, rules):
    """Run :func:`newton.start_table`."""
    return newton.start_table(t, cells, layout, targets, rules)


@jit(borrows=True)
def take_step(t, rules):
    """Run :func:`newton.take_step`."""
    return newton.take_step(t, rules)


@jit(borrows=True)
def perturb_targets(t, number):
    """Run :func:`newton.perturb_targets`."""
    newton.perturb_targets(t, number)


@jit(borrows=True)
def record_perturbation(t):
    """Run :func:`newton.record_perturbation`."""
    newton.record_perturbation(t)


@jit()
def write_result(t, layout, targets, rules, status, out, k):
    """Run :func:`results.write_result`."""
    results.write_result(t, layout, targets, rules, status, out, k)


@jit(borrows=True)
def normalize_factors(layout, targets, rules, factors):
    """Run :func:`results.normalize_factors`."""
    results.normalize_factors(layout, targets, rules, factors)
