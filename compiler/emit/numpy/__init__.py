"""Emission: plans as modules that need NumPy alone."""

from fgg.compiler.emit.numpy.module import emit as emit
from fgg.compiler.emit.numpy.module import linked as linked
