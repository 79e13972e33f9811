# SPDX-License-Identifier: Apache-2.0
"""JAX calls initialize() of every module in the namespace package jax_plugins before its first
compile. This one registers no device: it puts the compilation cache daemon behind JAX's cache."""


def initialize() -> None:
    import logging

    try:
        from warm.jax import _plugin

        _plugin.install()
    except Exception as e:  # JAX goes on by itself
        logging.getLogger("warm.jax").info("off: %r", e)
