//go:build linux

package main

import (
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
)

var held [][]byte

//go:noinline
func holdMuch() {
	for range 4 { // each so large that none escapes the sample
		held = append(held, make([]byte, 16<<20))
	}
}

// TestHoldersOfMemoryAreNamed allocates 64 MiB and checks that the profile of this process shows it.
func TestHoldersOfMemoryAreNamed(t *testing.T) {
	holdMuch()
	defer func() { held = nil }()
	var text strings.Builder
	// A profile has the state of the last collection but one.
	for range 3 {
		text.Reset()
		runtime.GC()
		if err := pprof.Lookup("heap").WriteTo(&text, 1); err != nil {
			t.Fatal(err)
		}
	}
	bytes, err := heapAlloc(text.String())
	if err != nil || bytes < 64<<20 {
		t.Errorf("%d bytes are in use, %v; 64 MiB are held", bytes, err)
	}
	told := holders(text.String())
	if len(told) == 0 || !strings.HasPrefix(told[0], "64.0 MiB by ") || !strings.Contains(told[0], "attack.holdMuch:") {
		t.Errorf("holdMuch should come first with 64.0 MiB:\n%s", strings.Join(told, "\n"))
	}
}

func TestNoHoldersOfNoProfile(t *testing.T) {
	for _, text := range []string{"", "1: 2", "heap profile: 1: 2 [3: 4] @ heap/x\n#\t0x1\tf+0x1\t/a.go:1\n", "0: 0 [1: 2] @ 0x1\n"} {
		if told := holders(text); told != nil {
			t.Errorf("%q: %v", text, told)
		}
		if _, err := heapAlloc(text); err == nil {
			t.Errorf("%q has no number of bytes", text)
		}
	}
}
