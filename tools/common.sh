# shellcheck shell=bash
# common.sh - packages and builds, for tools/run and tools/check. Sourced by bash; the caller is in the project's root.

say() { printf '%s\n' "$*" >&2; }
die() { say "$0: $*"; exit 1; }

# Names in the given package lists that are not installed. Elsewhere than on Debian: none, and meson names what it lacks.
packages_missing() {
    local name unless command rest installed
    command -v dpkg-query >/dev/null || return 0
    installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null | sed -n 's/ installed$//p')
    cat "$@" | while read -r name unless command rest; do
        case $name in '' | '#'*) continue ;; esac
        if [ "$unless" = unless ] && command -v "$command" >/dev/null; then
            continue
        fi
        grep -qxF "$name" <<<"$installed" || printf '%s\n' "$name"
    done
}

# Install what the given lists name and the machine lacks. Touches nothing when all is there.
packages_install() {
    local missing as_root=() apt
    mapfile -t missing < <(packages_missing "$@")
    [ ${#missing[@]} -eq 0 ] && return 0
    command -v apt-get >/dev/null || die "missing packages, and no apt-get here to install them: ${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || { ! sudo -n true 2>/dev/null && [ ! -t 0 ]; }; then
            say "Packages are missing. As root, run this line, then start again:"
            say "apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
            exit 1
        fi
        as_root=(sudo)
    fi
    apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
    say "installing: ${missing[*]}"
    # Lists are fetched only when the ones at hand do not suffice: absent on a fresh machine, stale on an old one.
    "${apt[@]}" -s install --no-install-recommends "${missing[@]}" >/dev/null 2>&1 </dev/null &&
        "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 </dev/null ||
        { "${apt[@]}" update >&2 </dev/null &&
            "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2 </dev/null; } ||
        die "could not install: ${missing[*]}"
    mapfile -t missing < <(packages_missing "$@")
    [ ${#missing[@]} -eq 0 ] || die "still missing after installing: ${missing[*]}"
}

debian_suite() { (. /etc/os-release && printf '%s\n' "$VERSION_CODENAME"); }

# This machine's apt sources, Debian's own only, so that a root made from them is Debian and nothing else.
debian_sources() {
    local debian
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | grep -E '^deb .*debian' && return 0
    debian=$(grep -ls 'debian' /etc/apt/sources.list.d/*.sources | head -n 1) || true
    [ -n "$debian" ] || die "no Debian source in /etc/apt"
    cat "$debian"
}

# Compile build/: release, and without tests unless tools/check has put them in.
build_make() {
    [ -f build/build.ninja ] || meson setup build >&2
    ninja -C build >&2
}
