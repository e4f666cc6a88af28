# SPDX-License-Identifier: Apache-2.0
"""Commands of inputs, wheels and images; the others are in ``patchset.cli``."""
