"""Learn costs from a transport plan that they explain, in JAX."""

import jax
import numpy as np
from jax import numpy as jnp

import cmfast

jax.config.update("jax_enable_x64", True)  # before the first array

rng = np.random.default_rng(0)
rows, columns = rng.dirichlet(np.full(6, 5.0), 2)
hidden = rng.uniform(size=(6, 6))  # what nobody observes
observed = cmfast.ipf(np.exp(-hidden / 0.2), rows, columns).matrix


def loss(cost):
    """Return the divergence of the observed plan from that of `cost`."""
    plan = cmfast.ipf(
        -cost / 0.2, jnp.asarray(rows), jnp.asarray(columns), logits=True
    ).matrix
    return cmfast.kl_divergence(jnp.asarray(observed), plan)


step = jax.jit(jax.value_and_grad(loss))
cost = jnp.zeros((6, 6))
for k in range(301):
    value, slope = step(cost)
    cost = cost - 0.5 * slope
    if k % 100 == 0:
        print(f"step {k}: divergence {value:.1e}")
