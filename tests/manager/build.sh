#!/usr/bin/env bash
# Builds Cluster API's core manager of a release, once per machine, and prints the directory that holds it: the program
# `manager`, and `cluster-api.yaml`, what `clusterctl init` would install beside it (definitions, RBAC, webhooks).
#
# Usage: build.sh [<release>]
#   <release>  one of the module files of ../oracle, such as v1.14.2, which is the default
#
# It comes from the module proxy alone, and is kept in the user's cache directory under a key of what it is made from.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
say() { echo "build.sh: $*" >&2; }
release=${1:-v1.14.2}
modules=$here/../oracle
if [[ ! -f $modules/$release.mod ]]; then
  say "there is no module file of $release; known are: $(cd "$modules" && ls -- v*.mod | sed 's/.mod$//' | xargs)"
  exit 2
fi

key=$(cat "$here/build.sh" "$modules/$release.mod" "$modules/$release.sum" | sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/capi-version-guard/manager
built=$cache/$release-$key
if [[ ! -d $built ]]; then
  command -v go >/dev/null || {
    say "Go is needed to build Cluster API's manager for the tests, and it is not on the PATH; install it from https://go.dev/dl"
    exit 1
  }
  kubectl=$("$here/../controlplane/build.sh")/kubectl
  mkdir -p "$cache"
  # Two test runs at the same time build once.
  exec 9>"$cache/lock-$release"
  flock 9
  if [[ ! -d $built ]]; then
    say "building Cluster API's manager $release; the first time takes some minutes ..."
    new=$(mktemp -d "$cache/new.XXXXXX")
    work=$(mktemp -d "$cache/build.XXXXXX")
    trap 'rm -rf "$new" "$work"' EXIT
    # -mod=mod may rewrite the module file; the one here stays as it is.
    cp "$modules/go.mod" "$work"
    cp "$modules/$release.mod" "$work/release.mod"
    cp "$modules/$release.sum" "$work/release.sum"
    cd "$work"
    go mod download -modfile=release.mod sigs.k8s.io/cluster-api
    module=$(go list -mod=mod -modfile=release.mod -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)
    # The manager moved into core/ with 1.14.
    package=sigs.k8s.io/cluster-api config=$module/config/default
    if [[ -d $module/core/config/default ]]; then
      package+=/core config=$module/core/config/default
    fi
    CGO_ENABLED=0 go build -mod=mod -modfile=release.mod -trimpath -ldflags="-s -w" -o "$new/manager" "$package"
    "$kubectl" kustomize "$config" >"$new/cluster-api.yaml"
    # Begins with a line of three dashes.
    cat "$module/cmd/clusterctl/config/crd/bases/clusterctl.cluster.x-k8s.io_providers.yaml" >>"$new/cluster-api.yaml"
    chmod 755 "$new"
    mv -T "$new" "$built"
    rm -rf "$work"
    trap - EXIT
  fi
fi
echo "$built"
