package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressIsOneLineThatGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &Progress{out: &out, what: "file", total: 200, begun: time.Now(), last: time.Now()}
		read := p.Reader(strings.NewReader(strings.Repeat("x", 200)))
		for range 2 {
			if _, err := io.ReadFull(read, make([]byte, 50)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(progressInterval)
		}
		if want := "\rfile: 50 % of 200"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		out.Reset()
		time.Sleep(4*time.Second - 2*progressInterval)
		p.Of(100, 300)
		if want := "\rfile: 33 % of 300, 8s left"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		out.Reset()
		p.Clear()
		p.Clear()
		if want := "\r" + strings.Repeat(" ", len("file: 33 % of 300, 8s left")) + "\r"; out.String() != want {
			t.Errorf("cleared by %q, want %q", out.String(), want)
		}
	})
}

func TestNoProgressWithoutATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := NewProgress(&out, "x", 1)
	p.Add(1)
	p.Clear()
	if text, err := io.ReadAll(p.Reader(strings.NewReader("a"))); err != nil || string(text) != "a" || p != nil || out.Len() > 0 {
		t.Errorf("got %q, %v, and %q was written", text, err, out.String())
	}
}
