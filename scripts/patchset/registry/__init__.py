# SPDX-License-Identifier: Apache-2.0
"""A client of container registries (OCI Distribution Specification 1.1), without an engine or a daemon.

Everything that a registry answers is bounded and checked by digest before it is used; failures are tried again a
bounded number of times and then said.
"""
