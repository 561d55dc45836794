package main

import (
	"archive/tar"
	"io"
	"testing"
	"time"
)

func TestInstructionsThatCanNotBePutTogetherAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"COPY", ""}, {"COPY", "alone"}, {"RUN", "true"}, {"FROM", "debian"}, {"LABEL", "a=b"}, {"CMD", "not json"}} {
		if err := new(image).apply(tar.NewWriter(io.Discard), map[string]bool{}, time.Time{}, t.TempDir(), c[0], c[1]); err == nil {
			t.Errorf("%s %q is taken", c[0], c[1])
		}
	}
}
