# shellcheck shell=bash
# Go's build mode of everything without the race detector, to be sourced by scripts and the
# Makefile: one mode, so that targets share compiled packages. Each of these settings is part of
# the cache key of a compiled package.
#
# Without debugging information, which nothing here reads, compiling takes a fifth less.
# grpcnotrace leaves out pages of gRPC's that nothing here serves, and with them templates, for
# which the linker would have to keep all methods of all types. The race detector needs cgo:
# it has CGO_ENABLED=1 set beside -race.
export CGO_ENABLED=0
tags=grpcnotrace
mode="-trimpath -tags=$tags -gcflags=all=-dwarf=false"
flags=$(go env GOFLAGS)
case " $flags " in
  *" $mode "*) ;;
  *) export GOFLAGS="${flags:+$flags }$mode" ;;
esac
