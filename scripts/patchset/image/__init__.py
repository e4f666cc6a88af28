# SPDX-License-Identifier: Apache-2.0
"""Container images: a base, the locked dependencies and the patched wheel, put together by whichever engine is there.

The host downloads and verifies everything; the engine builds without a network, so that no index address,
proxy, certificate or password of the host can end up in an image.
"""
