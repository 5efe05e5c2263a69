"""Tests of machine code run only where there is a C++ compiler."""

from __future__ import annotations

import pytest

from fgg.runtime.native import build as native_build

try:
    native_build.compiler()
    HAS_COMPILER = True
except native_build.CannotBuild:
    HAS_COMPILER = False

needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="there is no C++ compiler")
