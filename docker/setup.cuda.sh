# What the cuda target needs beside the locked wheels; run while the image is built.
set -eu
