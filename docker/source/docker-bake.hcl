# Everything compiled from the patched tree, by vLLM's own Dockerfile: docker buildx bake --file docker/source/docker-bake.hcl
# `nox -s build-image -- RELEASE --mode source` makes the context, fills in the first group of variables and runs this.

# What is built; given by the session.
variable "CONTEXT" { default = "" }
variable "TAG" { default = "" }
variable "VERSION" { default = "" }
variable "COMMIT" { default = "" }
variable "SERIES_SHA256" { default = "" }
variable "RELEASE" { default = "" }
variable "SOURCE_DATE_EPOCH" { default = "0" }

# How; set them in the environment. The defaults are those of vLLM's release pipeline.
variable "PLATFORMS" { default = "linux/amd64" }
variable "MAX_JOBS" { default = "16" }
variable "NVCC_THREADS" { default = "8" }
variable "TORCH_CUDA_ARCH_LIST" { default = "7.5 8.0 8.6 8.9 9.0 10.0 11.0 12.0" }
# A cache that outlives the builder, such as type=registry,ref=REGISTRY/NAME:cache; "" for none.
variable "CACHE_FROM" { default = "" }
variable "CACHE_TO" { default = "" }
variable "OUTPUT" { default = "type=docker" }
# Of the target "modules": an image of Debian 12, the modules ("" for vLLM's own), compilers at a time ("": as many as fit),
# CUDA architectures, and the folder that gets the wheel.
variable "BASE" { default = "docker.io/library/debian:12" }
variable "MODULES" { default = "" }
variable "JOBS" { default = "" }
variable "CUDA_ARCHS" { default = "9.0" }
variable "WHEELS" { default = "build/wheels/modules" }

group "default" {
  targets = ["cuda"]
}

target "_common" {
  context    = CONTEXT
  platforms  = split(",", PLATFORMS)
  tags       = [TAG]
  cache-from = CACHE_FROM == "" ? [] : [CACHE_FROM]
  cache-to   = CACHE_TO == "" ? [] : [CACHE_TO]
  output     = [OUTPUT]
  args = {
    SOURCE_DATE_EPOCH = SOURCE_DATE_EPOCH
  }
  labels = {
    "org.opencontainers.image.title"    = "vllm-mtp-patches"
    "org.opencontainers.image.version"  = VERSION
    "org.opencontainers.image.revision" = COMMIT
    "org.opencontainers.image.licenses" = "Apache-2.0"
    "vllm-mtp-patches.release"          = RELEASE
    "vllm-mtp-patches.series-sha256"    = SERIES_SHA256
  }
}

target "cuda" {
  inherits   = ["_common"]
  dockerfile = "docker/Dockerfile.mtp"
  target     = "vllm-openai"
  args = {
    max_jobs             = MAX_JOBS
    nvcc_threads         = NVCC_THREADS
    torch_cuda_arch_list = TORCH_CUDA_ARCH_LIST
    # The limit is the package index's, for a wheel that is uploaded there.
    RUN_WHEEL_CHECK      = "false"
    # The context's git history is made here, from the source archive.
    GIT_REPO_CHECK       = "0"
  }
  labels = {
    "vllm-mtp-patches.target" = "cuda"
  }
}

target "cpu" {
  inherits   = ["_common"]
  dockerfile = "docker/Dockerfile.mtp"
  target     = "vllm-openai"
  args = {
    max_jobs       = MAX_JOBS
    GIT_REPO_CHECK = "0"
  }
  labels = {
    "vllm-mtp-patches.target" = "cpu"
  }
}

# A wheel with some modules compiled, of this repository alone; the other targets build everything.
target "modules" {
  context    = "."
  dockerfile = "docker/source/Dockerfile.modules"
  target     = "wheel"
  platforms  = split(",", PLATFORMS)
  cache-from = CACHE_FROM == "" ? [] : [CACHE_FROM]
  cache-to   = CACHE_TO == "" ? [] : [CACHE_TO]
  output     = ["type=local,dest=${WHEELS}"]
  args = {
    BASE       = BASE
    RELEASE    = RELEASE
    MODULES    = MODULES
    JOBS       = JOBS
    CUDA_ARCHS = CUDA_ARCHS
  }
}
