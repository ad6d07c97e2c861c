#!/usr/bin/env bash
# Builds the control plane of the tests, once per machine, and prints the directory that holds it: the programs `etcd`,
# `kube-apiserver` and `kubectl`, and the file `crds.yaml` with Cluster API's CustomResourceDefinitions.
#
# Usage: build.sh [--with-manager]   (Cluster API's core manager too, as the program `cluster-api-manager`)
#
# The programs come from this Go module, so from source and from the module proxy alone. They are kept in the user's
# cache directory under a key of everything that they are made from, so a second clone does not build them again.
# If KUBEBUILDER_ASSETS is set, its etcd, kube-apiserver and kubectl are used instead.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
say() { echo "build.sh: $*" >&2; }

manager=no
case ${1:-} in
  '') ;;
  --with-manager) manager=yes ;;
  *) say "unknown argument: $1; the only one is --with-manager"; exit 2 ;;
esac

kubernetes=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9.]*\).*|\1|p' go.mod)
key=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-16)
if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  for program in etcd kube-apiserver kubectl; do
    if [[ ! -x $KUBEBUILDER_ASSETS/$program ]]; then
      say "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, which has no $program"
      exit 1
    fi
  done
  key+=-$(realpath "$KUBEBUILDER_ASSETS" | sha256sum | cut -c1-8)
fi
[[ $manager = no ]] || key+=-manager
cache=${XDG_CACHE_HOME:-$HOME/.cache}/capi-version-guard/controlplane
done_dir=$cache/$key

if [[ -d $done_dir ]]; then
  echo "$done_dir"
  exit 0
fi

if ! command -v go >/dev/null; then
  say "Go is needed to build etcd, kube-apiserver and kubectl for the tests, and it is not on the PATH."
  case $(uname -m) in x86_64) machine=amd64 ;; aarch64) machine=arm64 ;; *) machine=$(uname -m) ;; esac
  archive=https://go.dev/dl/go$(sed -n 's/^go //p' go.mod).linux-$machine.tar.gz
  say "Install it with: curl -fsSL $archive | sudo tar -C /usr/local -xz; PATH=\$PATH:/usr/local/go/bin"
  exit 1
fi

mkdir -p "$cache"
# Two test runs at the same time build once.
exec 9>"$cache/lock"
flock 9
if [[ -d $done_dir ]]; then
  echo "$done_dir"
  exit 0
fi
new=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$new"' EXIT

# Without gitVersion kubectl prints an error, and Cluster API's manager refuses the server.
minor=${kubernetes#*.}
version=k8s.io/component-base/version
ldflags="-s -w -X $version.gitVersion=v$kubernetes"
ldflags+=" -X $version.gitMajor=${kubernetes%%.*} -X $version.gitMinor=${minor%%.*}"

build() { # <package> <program>
  say "building $2 from $1 ..."
  CGO_ENABLED=0 go build -trimpath -ldflags="$ldflags" -o "$new/$2" "$1"
}

if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  for program in etcd kube-apiserver kubectl; do
    ln -s "$(realpath "$KUBEBUILDER_ASSETS")/$program" "$new/$program"
  done
else
  say "the first build on this machine takes five to ten minutes; the result is kept in $done_dir"
  build go.etcd.io/etcd/server/v3 etcd
  build k8s.io/kubernetes/cmd/kube-apiserver kube-apiserver
  build k8s.io/kubernetes/cmd/kubectl kubectl
fi
[[ $manager = no ]] || build sigs.k8s.io/cluster-api/core cluster-api-manager

# A module that `go list` alone names is not downloaded by it.
go mod download sigs.k8s.io/cluster-api
module=$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)
for crd in core/config/crd/bases/cluster.x-k8s.io_{clusters,clusterclasses,machinedeployments,machinepools} \
  controlplane/kubeadm/config/crd/bases/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes \
  cmd/clusterctl/config/crd/bases/clusterctl.cluster.x-k8s.io_providers; do
  # Each begins with a line of three dashes. The labels, which tell the contract, are added by kustomize upstream.
  sed 's|^metadata:$|&\n  labels:\n    cluster.x-k8s.io/v1beta1: v1beta1\n    cluster.x-k8s.io/v1beta2: v1beta2|' "$module/$crd.yaml"
done >"$new/crds.yaml"

chmod 755 "$new"
mv -T "$new" "$done_dir"
trap - EXIT
echo "$done_dir"
