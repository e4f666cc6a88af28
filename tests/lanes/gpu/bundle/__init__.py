# SPDX-License-Identifier: Apache-2.0
"""The bundle: the lane and all it needs, in parts, for a host without a network."""
