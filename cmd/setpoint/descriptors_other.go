//go:build !unix

package main

func descriptorLimit() (uint64, bool) { return 0, false }
