# SPDX-License-Identifier: Apache-2.0
"""A built image, looked at from inside."""
