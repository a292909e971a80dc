#!/bin/sh
# Provides the compiler that the committed guest components are built with:
# Debian 13's rustc with its wasm32-wasip2 target, unpacked into a cache
# folder, under its own loader. Nothing is installed, nothing needs root, and
# the system's apt is only read. Prints the toolchain's folder on stdout;
# everything else goes to stderr.
#
#   toolchain.sh            provide the toolchain of toolchain.lock
#   toolchain.sh --relock   print a toolchain.lock of what the mirror has today
#
# Environment:
#   SKILLHOST_TOOLCHAIN      the cache folder
#   SKILLHOST_DEBIAN_MIRROR  a Debian mirror, where the system's apt knows none
#   CARGO                    the cargo that builds `wasm-component-ld`
set -eu

suite=trixie
component_ld=0.5.31
# Raise it when this script makes something else of the same packages.
layout=1
# The packages whose content ends up in, or decides, the bytes of a component.
# The others only have to make these run.
deciding='rustc libstd-rust-dev libstd-rust-1.85 libstd-rust-dev-wasm32 libllvm19 lld-19'

say() { printf 'guest toolchain: %s\n' "$*" >&2; }

fail() {
    say "$1"
    shift
    for line; do printf '  %s\n' "$line" >&2; done
    exit 1
}

main() {
    here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
    lock=$here/toolchain.lock
    [ -r "$lock" ] || fail "\`$lock\` cannot be read"
    cache=${SKILLHOST_TOOLCHAIN:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/skillhost/guest-toolchain}

    relock=
    case ${1-} in
    '') ;;
    --relock) relock=yes ;;
    *) fail "unknown argument \`$1\`, try no argument or \`--relock\`" ;;
    esac

    check_machine
    # Wrappers carry the folder's name, so it must not depend on where we are.
    mkdir -p "$cache"
    cache=$(CDPATH='' cd -- "$cache" && pwd)
    key=$({ echo "$layout $component_ld" && cat "$lock"; } | sha256sum | cut -c1-16)
    folder=$cache/$key

    if [ -z "$relock" ] && [ -f "$folder/stamp" ]; then
        finish
    fi
    check_commands
    # One run at a time: the second waits, then finds the work done.
    exec 9>"$cache/busy"
    if ! flock -n 9; then
        say "waiting for another run in \`$cache\`"
        flock 9
    fi
    if [ -n "$relock" ]; then
        configure_apt
        print_lock
        drop_apt
        exit
    fi
    if [ ! -f "$folder/stamp" ]; then
        mkdir -p "$cache/debs"
        fetch
        build_component_ld
        install
    fi
    finish
}

# The stamp holds the warnings of the installation. They are said again at
# each run: whoever sees a byte differ later has to see them too.
finish() {
    cat "$folder/stamp" >&2
    printf '%s\n' "$folder"
    exit
}

# --- what the machine must offer -------------------------------------------

advice="a rustup toolchain with the \`wasm32-wasip2\` target builds guests too: \`cargo xtask guests --toolchain active\`"
advice_bytes="only the comparison with the committed bytes needs a Debian-like x86_64 machine"

check_machine() {
    machine=$(uname -s -m)
    [ "$machine" = 'Linux x86_64' ] ||
        fail "the packages are for \`Linux x86_64\`, this machine is \`$machine\`" "$advice" "$advice_bytes"
}

check_commands() {
    missing=
    for name in apt-get apt-cache apt-config dpkg-deb flock sha256sum awk cc "${CARGO:-cargo}"; do
        command -v "$name" >/dev/null 2>&1 || missing="$missing \`$name\`"
    done
    [ -z "$missing" ] || fail "not found:$missing" "$advice" "$advice_bytes"
}

# --- where the packages come from ------------------------------------------

# Prints `rank<TAB>mirror<TAB>keyring` for each entry of the system's apt
# sources that may be Debian's main archive. Rank 1 is signed by Debian's own
# keyring; rank 2 names no keyring file, and a suite that Debian has or had.
debian_entries() {
    awk '
        function entry(types, uris, suites, components, signed,    u, s, i, j, rank) {
            if (" " types " " !~ / deb / || " " components " " !~ / main /) return
            if (signed ~ /BEGIN PGP/) signed = ""
            split(suites, s, " ")
            rank = 0
            for (i in s) {
                if (s[i] ~ /[-\/]/) continue
                if (signed ~ /debian-archive-keyring/) rank = 1
                else if (signed == "" && s[i] ~ known && rank == 0) rank = 2
            }
            if (rank == 0) return
            split(uris, u, " ")
            for (j = 1; j in u; j++)
                if (u[j] !~ /^cdrom:/ && u[j] !~ /security/)
                    print rank "\t" u[j] "\t" signed
        }
        # One line: `deb [option=value ...] uri suite component...`
        function one_line(line,    f, n, i, rest, options, signed) {
            sub(/#.*/, "", line)
            options = ""
            if (match(line, /\[[^]]*\]/)) {
                options = substr(line, RSTART + 1, RLENGTH - 2)
                line = substr(line, 1, RSTART - 1) " " substr(line, RSTART + RLENGTH)
            }
            signed = ""
            n = split(options, f, " ")
            for (i = 1; i <= n; i++)
                if (tolower(f[i]) ~ /^signed-by=/) signed = substr(f[i], 11)
            n = split(line, f, " ")
            rest = ""
            for (i = 4; i <= n; i++) rest = rest " " f[i]
            entry(f[1], f[2], f[3], rest, signed)
        }
        # A stanza of fields, ended by an empty line or the end of the file.
        function stanza() {
            if (tolower(v["enabled"]) !~ /^(no|false|off|0)$/)
                entry(v["types"], v["uris"], v["suites"], v["components"], v["signed-by"])
            split("", v)
            field = ""
        }
        BEGIN {
            known = "^(((old)*stable)|testing|unstable|sid|buster|bullseye|bookworm|trixie|forky|duke)$"
        }
        FNR == 1 { stanza() }
        FILENAME !~ /\.sources$/ { one_line($0); next }
        /^[ \t]*#/ { next }
        /^[ \t]*$/ { stanza(); next }
        /^[ \t]/ { v[field] = v[field] " " $0; next }
        {
            field = tolower($0)
            sub(/[ \t]*:.*/, "", field)
            value = $0
            sub(/^[^:]*:[ \t]*/, "", value)
            sub(/[ \t]+$/, "", value)
            v[field] = value
        }
        END { stanza() }
    ' "$@"
}

# Sets `mirror` and `keyring`.
find_mirror() {
    eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
    set --
    for file in "${list-}" "${parts-}"*.list "${parts-}"*.sources; do
        [ -f "$file" ] && [ -r "$file" ] && set -- "$@" "$file"
    done
    found=
    [ $# -eq 0 ] || found=$(debian_entries "$@" | sort -s -n -k1,1 | head -n 1)

    mirror=${SKILLHOST_DEBIAN_MIRROR:-$(printf '%s' "$found" | cut -f2)}
    [ -n "$mirror" ] ||
        fail 'the apt sources have no entry of the main archive of Debian' \
            "set \`SKILLHOST_DEBIAN_MIRROR\` to the address of a Debian mirror" "$advice"

    keyring=$(printf '%s' "$found" | cut -f3)
    # An entry without a keyring file must be one that Debian's vouches for.
    for file in "$keyring" /usr/share/keyrings/debian-archive-keyring.gpg \
        /usr/share/keyrings/debian-archive-keyring.pgp; do
        case $file in
        /*) if [ -r "$file" ]; then keyring=$file && return; fi ;;
        esac
    done
    fail 'the keyring of the Debian archive is missing' "install the package \`debian-archive-keyring\`"
}

# apt with folders of its own, one source, and none of the system's hooks and
# pins. What says how to reach a mirror (proxies, retries, certificates) is
# taken over, and may hold a password: the file is for its owner only.
configure_apt() {
    find_mirror
    apt=$cache/apt
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    : >"$apt/status"
    printf 'deb [arch=amd64 signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" >"$apt/sources.list"
    (
        umask 077
        rm -f "$apt/apt.conf"
        {
            apt-config dump | grep '^Acquire::' |
                grep -v -E '^Acquire::(Allow|IndexTargets|Changelogs|CompressionTypes|Languages|cdrom)' || :
            cat <<END
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Cache::archives "$apt/archives";
Dir::Log "$apt";
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "3";
END
        } >"$apt/apt.conf"
    )
    # For root, apt would otherwise become a user who cannot see the cache.
    APT_CONFIG=$apt/apt.conf
    export APT_CONFIG

    say "reading the package index of \`$suite\`"
    apt-get -qq update >&2 || fail "the package index of \`$suite\` could not be read"
}

# The index is a hundred megabytes that the next mirror visit reads anew.
drop_apt() { rm -rf "$apt"; }

# --- the packages -----------------------------------------------------------

# Prints the lock's lines without comments and empty lines.
locked() { grep -v -E '^[[:space:]]*(#|$)' "$lock"; }

# Prints the file that holds a package: apt writes the colon of an epoch as
# `%3a`, and the architecture is one of two.
deb() {
    stem=$1_$(printf '%s' "$2" | sed 's/:/%3a/g')
    for file in "$cache/debs/${stem}_amd64.deb" "$cache/debs/${stem}_all.deb"; do
        if [ -f "$file" ]; then
            printf '%s\n' "$file"
            return
        fi
    done
}

digest() { sha256sum <"$1" | cut -d' ' -f1; }

# Leaves every package in the cache and writes `debs/plan`, the lines
# `package version` to unpack, and `debs/warnings`.
fetch() {
    : >"$cache/debs/plan"
    : >"$cache/debs/warnings"
    wanted=
    locked >"$cache/debs/locked"
    while read -r package version sha256; do
        file=$(deb "$package" "$version")
        if [ -n "$file" ] && [ "$(digest "$file")" = "$sha256" ]; then
            echo "$package $version" >>"$cache/debs/plan"
        else
            rm -f "$file"
            wanted="$wanted $package"
        fi
    done <"$cache/debs/locked"
    [ -n "$wanted" ] || return 0

    configure_apt
    # shellcheck disable=SC2086  # a list of package names
    apt-cache madison $wanted | awk -F ' *[|] *' '{ sub(/^ */, "", $1); print $1, $2 }' >"$cache/debs/available"
    set --
    while read -r package version _; do
        case " $wanted " in
        *" $package "*) ;;
        *) continue ;;
        esac
        chosen=$(awk -v p="$package" -v v="$version" '
            $1 == p && !first { first = $2 }
            $1 == p && $2 == v { exact = $2 }
            END { print exact ? exact : first }' "$cache/debs/available")
        [ -n "$chosen" ] || fail "the mirror has no package \`$package\` in \`$suite\`"
        echo "$package $chosen" >>"$cache/debs/plan"
        set -- "$@" "$package=$chosen"
    done <"$cache/debs/locked"
    say "fetching$wanted"
    # apt looks at a file that is already here, and keeps it if it is the one.
    (cd "$cache/debs" && apt-get -q download "$@" >&2) || fail 'not all packages could be fetched' \
        'what was fetched is kept: run again to go on'
    drop_apt
    compare_with_lock
}

# apt has verified each package against the signed index. The lock says more:
# that they are the packages the committed components were built with.
compare_with_lock() {
    while read -r package version sha256; do
        used=$(awk -v p="$package" '$1 == p { print $2 }' "$cache/debs/plan")
        file=$(deb "$package" "$used")
        [ -n "$file" ] || fail "the package \`$package\` \`$used\` was not fetched"
        if [ "$used" = "$version" ]; then
            found=$(digest "$file")
            [ "$found" = "$sha256" ] ||
                fail "the package \`$package\` \`$version\` is not the one in \`toolchain.lock\`" \
                    "locked: $sha256" "found:  $found"
            continue
        fi
        case " $deciding " in
        *" $package "*)
            say "warning: the mirror has \`$package\` \`$used\`, the lock names \`$version\`;" \
                'whether the bytes stay the same, the comparison will tell' 2>>"$cache/debs/warnings"
            ;;
        esac
    done <"$cache/debs/locked"
}

# The index is signed, and names each package's digest: nothing to download.
print_lock() {
    sed -n '/^#/p; /^#/!q' "$lock"
    locked | while read -r package _; do
        line=$(apt-cache show --no-all-versions "$package" |
            awk '/^Version: / { v = $2 } /^SHA256: / { d = $2 } END { if (v && d) print v, d }')
        [ -n "$line" ] || fail "the mirror has no package \`$package\` in \`$suite\`"
        printf '%s %s\n' "$package" "$line"
    done
}

# --- the folder -------------------------------------------------------------

# The linker that turns a module into a component, at one version: a newer
# Rust on the machine brings a newer one, and other bytes.
build_component_ld() {
    component_ld_file=$cache/wasm-component-ld-$component_ld
    [ ! -x "$component_ld_file" ] || return 0
    say "building \`wasm-component-ld\` $component_ld, which takes a minute or two"
    rm -rf "$cache/cargo"
    # In the cache: no `.cargo/config.toml` of a checkout applies there.
    # Without the lock's descriptor: a compiler cache may leave a daemon behind.
    (
        cd "$cache"
        PATH=$cache/cargo/bin:$PATH "${CARGO:-cargo}" install wasm-component-ld --version "$component_ld" --locked --no-track \
            --root "$cache/cargo" --target-dir "$cache/cargo/target" >&2 9>&-
    ) || fail "\`wasm-component-ld\` could not be built"
    mv "$cache/cargo/bin/wasm-component-ld" "$component_ld_file"
    rm -rf "$cache/cargo"
}

# Unpacks anew, whatever an interrupted run left. The stamp comes last: it
# says that the folder is complete, and that its programs run.
install() {
    root=$folder/root
    rm -rf "$folder"
    mkdir -p "$folder/bin" "$root"
    say "unpacking into \`$folder\`"
    while read -r package version; do
        dpkg-deb -x "$(deb "$package" "$version")" "$root" ||
            fail "the package \`$package\` could not be unpacked"
    done <"$cache/debs/plan"
    # Two more targets in the same package, a quarter of the whole.
    rm -rf "$root/usr/lib/rustlib/wasm32-unknown-unknown" "$root/usr/lib/rustlib/wasm32-wasip1"

    quoted=$(quote "$root")
    run="exec $quoted/usr/lib64/ld-linux-x86-64.so.2 --library-path $quoted/usr/lib/x86_64-linux-gnu"
    {
        cat <<'END'
#!/bin/sh
# Cargo derives `metadata` from its own version and, for a package outside the
# workspace's folder, from the folder of the checkout. It names symbols and so
# orders code: for a guest, the package and its version do as well. The folder
# of a build script's output has a name of the same kind.
case " $* " in
*" --target wasm32-wasip2 "*)
    for arg; do
        shift
        case $arg in
        metadata=*) arg=metadata=${CARGO_PKG_NAME-}-${CARGO_PKG_VERSION-} ;;
        esac
        set -- "$@" "$arg"
    done
    [ -z "${OUT_DIR-}" ] || set -- "$@" "--remap-path-prefix=$OUT_DIR=/out/${CARGO_PKG_NAME-}"
    ;;
esac
END
        printf '%s %s/usr/bin/rustc --sysroot %s/usr "$@"\n' "$run" "$quoted" "$quoted"
    } >"$folder/bin/rustc"
    # lld looks at its own name to know which linker to be.
    printf '#!/bin/sh\n%s --argv0 wasm-ld %s/usr/lib/llvm-19/bin/wasm-ld "$@"\n' "$run" "$quoted" >"$folder/bin/wasm-ld"
    cp "$component_ld_file" "$folder/bin/wasm-component-ld"
    chmod 755 "$folder/bin/rustc" "$folder/bin/wasm-ld"

    for name in 'rustc -vV' 'wasm-ld --version' 'wasm-component-ld --version'; do
        # shellcheck disable=SC2086  # a command and its argument
        "$folder/bin/"$name >/dev/null || fail "\`$name\` of the unpacked toolchain does not run"
    done
    cp "$cache/debs/warnings" "$folder/stamp.part"
    mv "$folder/stamp.part" "$folder/stamp"
}

# Prints a word that a shell reads as the argument.
quote() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

main "$@"
