"""Slow and obviously right: every op in float64 loops, exact sums and fractions. Imports nothing of cmfast.

One module per topic; ``ORACLES`` maps the name of an op to a function that takes what the public function takes (as
NumPy arrays) and returns a tuple of the arrays that it promises, in the promised dtype and shape.
"""

from oracle import comparison, counting, geometry, normalizing, scaling, zeros

ORACLES = {
    **comparison.ORACLES,
    **counting.ORACLES,
    **geometry.ORACLES,
    **normalizing.ORACLES,
    **scaling.ORACLES,
    **zeros.ORACLES,
}
