"""The tree adapter's inner half: runs in a process of its own, with a release's
sources on its path.
"""
