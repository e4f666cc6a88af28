"""The clients lane: real agents write real files, asked of a release's own serving code. See README.md."""

#: Raised by hand when a verdict can change.
SUITE_VERSION = 2
