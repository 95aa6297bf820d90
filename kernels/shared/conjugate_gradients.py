"""Preconditioned conjugate gradients for symmetric positive semidefinite systems (Hestenes and Stiefel, 1952).

Their coefficients are the entries of a Lanczos matrix, whose least eigenvalue estimates that of the preconditioned
system from above. Vectors are stored and updated by an :class:`Iterate`: NumPy's here, those of a device elsewhere.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

# Forcing terms of inexact Newton steps: the relative residual that conjugate gradients leave.
MOST_FORCING = 0.1  # the largest
LEAST_FORCING = 1e-6  # the smallest
FINER_FORCING = 1e-3  # where the error of cells or weights is still too large at the end
FINER_STEPS = 3  # number of such steps
MOST_PRODUCTS = 1000  # products of one step
MOST_FORMED_UNKNOWNS = 3000  # unknowns up to which the Hessian is formed from the start
EIGENVALUE_MARGIN = 0.1  # the least eigenvalue over the least of the Lanczos matrix, at least


class Iterate(Protocol):
    """The vectors of conjugate gradients: solution, residual, preconditioned residual and search direction.

    The energy is the product of both residuals, the curvature that of the search direction and the matrix times it.
    """

    def step(self, energy: float) -> tuple[float, float]:
        """Move to the minimum along the search direction, update both residuals; return curvature and energy.

        `energy` is the last one. Nothing moves if the curvature is not positive and finite.
        """

    def turn(self, ratio: float) -> None:
        """Set the search direction to the preconditioned residual plus `ratio` times the last direction."""


class HostIterate(ABC):
    """The step of an iterate whose curvature is known before it moves."""

    @abstractmethod
    def multiply(self) -> float:
        """Multiply the matrix by the search direction; return the curvature."""

    @abstractmethod
    def move(self, length: float) -> float:
        """Move the solution along the search direction, update both residuals; return the energy."""

    def step(self, energy: float) -> tuple[float, float]:
        """Move to the minimum along the search direction, update both residuals; return curvature and energy."""
        curvature = self.multiply()
        return curvature, self.move(energy / curvature) if 0.0 < curvature < math.inf else energy


class ArrayIterate(HostIterate):
    """An iterate of NumPy arrays, which begins at zero.

    `multiply` returns the product of the matrix and a vector, and the curvature along it.
    """

    def __init__(self, right: Any, precondition: Callable[[Any], Any], multiply: Callable[[Any], tuple[Any, Any]]):
        self.solution, self.residual = np.zeros_like(right), right
        self._precondition, self._multiply = precondition, multiply
        self._preconditioned = self.direction = precondition(right)
        self._product: Any = None

    @property
    def energy(self) -> float:
        """The product of the residual and the preconditioned residual."""
        return float(self.residual @ self._preconditioned)

    def multiply(self) -> float:
        """Multiply the matrix by the search direction; return the curvature."""
        self._product, curvature = self._multiply(self.direction)
        return float(curvature)

    def move(self, length: float) -> float:
        """Move the solution along the search direction, update both residuals; return the energy."""
        self.solution = self.solution + length * self.direction
        self.residual = self.residual - length * self._product
        self._preconditioned = self._precondition(self.residual)
        return self.energy

    def turn(self, ratio: float) -> None:
        """Set the search direction to the preconditioned residual plus `ratio` times the last direction."""
        self.direction = self._preconditioned + ratio * self.direction


class ConjugateGradients:
    """The iteration: an iterate, its energy, and the lengths of the steps and ratios of energies so far."""

    def __init__(self, iterate: Iterate, energy: float) -> None:
        self.iterate, self.energy = iterate, energy
        self.lengths: list[float] = []
        self.ratios: list[float] = []

    def advance(self) -> bool:
        """Take a step; return False, and take none, if the curvature is not positive and finite."""
        if self.ratios:
            self.iterate.turn(self.ratios[-1])
        before = self.energy
        curvature, energy = self.iterate.step(before)
        if not 0.0 < curvature < math.inf:
            return False
        self.energy = energy
        self.lengths.append(before / curvature)
        self.ratios.append(energy / before)
        return True

    def least_eigenvalue(self) -> float:
        """Return the least eigenvalue of the Lanczos matrix; infinite before the first step."""
        return least_eigenvalue(self.lengths, self.ratios) if self.lengths else math.inf


def least_eigenvalue(lengths: Any, ratios: Any) -> float:
    """Return the least eigenvalue of the Lanczos matrix of some steps; zero if rounding makes it negative."""
    from scipy.linalg import eigvalsh_tridiagonal

    a, b = np.asarray(lengths), np.asarray(ratios)[: len(lengths) - 1]
    diagonal = 1.0 / a
    diagonal[1:] += b / a[:-1]
    found = eigvalsh_tridiagonal(diagonal, np.sqrt(b) / a[:-1], select="i", select_range=(0, 0))
    return max(float(found[0]), 0.0)
