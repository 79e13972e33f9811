# SPDX-License-Identifier: Apache-2.0
"""The plugin of warm for JAX. JAX calls initialize() of every module in the namespace package
jax_plugins before its first compile. This plugin registers no device: it puts the daemon behind JAX's
compilation cache."""


def initialize() -> None:
    import logging

    try:
        from warm.jax import _plugin

        _plugin.install()
    except Exception as e:  # JAX goes on without us
        logging.getLogger("warm.jax").info("off: %r", e)
