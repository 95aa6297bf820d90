"""Rules of Newton's method on the dual (``kernels/shared/scaling.py``), compiled into the kernels that call them."""

from cmfast.kernels.cpu._core.jit import jit
from cmfast.kernels.shared import scaling

damped_step = jit(inner=True, inline=True)(scaling.damped_step)
has_stalled = jit(inner=True, inline=True)(scaling.has_stalled)
