"""Named, seeded inputs per op, ugly ones first. One module per topic; ``CASES`` maps the name of an op to its cases."""

from cases import comparison, counting, geometry, normalizing, scaling, zeros

CASES = {**comparison.CASES, **counting.CASES, **geometry.CASES, **normalizing.CASES, **scaling.CASES, **zeros.CASES}
