#!/bin/sh
# Builds the runner into dist/: fetches its packages (npm), the compiler of the engine (zig,
# from PyPI) and its crates, all pinned with hashes. Needs Rust, Node.js with npm, and python3
# with venv. SKILLHOST names another program than `skillhost`.
set -eu
cd "$(dirname "$0")"
repository=$(cd ../../.. && pwd)

(cd packages && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)

python=target/zig/bin/python
if ! [ -x "$python" ] || ! cmp -s target/zig/requirements.txt "$repository/guest-tools/kits/c/requirements.txt"; then
    rm -rf target/zig
    python3 -m venv target/zig
    "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$repository/guest-tools/kits/c/requirements.txt"
    cp "$repository/guest-tools/kits/c/requirements.txt" target/zig/
fi
export RUNNER_PYTHON="$PWD/$python" WASI_SDK="$PWD/sdk"

# Without wasm32-wasip2 in rustup, use the toolchain of the committed guests.
if [ -z "${RUSTC:-}" ] && ! [ -d "$(rustc --print target-libdir --target wasm32-wasip2 2>/dev/null)" ]; then
    toolchain=$("$repository/guest-tools/toolchain.sh")
    export RUSTC="$toolchain/bin/rustc" PATH="$toolchain/bin:$PATH"
    export CARGO_TARGET_WASM32_WASIP2_LINKER="$toolchain/bin/wasm-component-ld"
fi

# A panic message carries the path of its source: keep this machine's folders out of the component.
cargo fetch --quiet --locked
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
flags=$({
    printf '%s=/src\n' "$repository"
    printf '%s=/crates\n' "$registry"/*
} | LC_ALL=C sort | sed 's/^/--remap-path-prefix=/' | tr '\n' '\037')
# With a separator that no path has, and the flags of `cargo xtask guests`: crates that both use are compiled once.
export CARGO_ENCODED_RUSTFLAGS="${flags%?}"
exec "${SKILLHOST:-skillhost}" build .
