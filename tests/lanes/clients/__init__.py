"""The clients lane: real agents write real files, asked of a release's own serving code. See README.md."""
