//go:build !unix

package serve

func descriptorLimit() (uint64, bool) { return 0, false }
