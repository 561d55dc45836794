# shellcheck shell=bash
# How Go compiles everything here that has no race detector, for scripts and the Makefile to
# source: one mode, so that what one target compiled the next one finds. Each of these is part
# of the key under which Go keeps a compiled package.
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
