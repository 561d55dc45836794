package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress shows on standard error how far a command is, on a line that Clear removes. It is
// safe for concurrent use. Nil shows nothing.
type Progress struct {
	out   io.Writer
	what  string
	total int64 // 0: unknown

	mu    sync.Mutex
	done  int64     // guarded by mu
	last  time.Time // guarded by mu; when the line was written
	shown int       // guarded by mu; the length of the line, 0: no line
}

// progressInterval is how often the line is written at most.
const progressInterval = 200 * time.Millisecond

// NewProgress returns a progress display of total steps, 0 if their number is unknown; nil if
// w is not a terminal.
func NewProgress(w io.Writer, what string, total int64) *Progress {
	screen, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(screen.Fd())) {
		return nil
	}
	return &Progress{out: w, what: what, total: total, last: time.Now()}
}

// Add counts steps that are done.
func (p *Progress) Add(steps int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(steps)
	if now := time.Now(); now.Sub(p.last) >= progressInterval {
		p.last = now
		p.show()
	}
}

// show writes the line over the one before. It needs mu.
func (p *Progress) show() {
	line := fmt.Sprintf("%s: %d", p.what, p.done)
	if p.total > 0 {
		line = fmt.Sprintf("%s: %d %% of %d", p.what, 100*p.done/p.total, p.total)
	}
	_, _ = fmt.Fprintf(p.out, "\r%-*s", p.shown, line)
	p.shown = max(p.shown, len(line))
}

// Clear removes the line, so that other text can be written. The next step may show it again.
func (p *Progress) Clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown > 0 {
		_, _ = fmt.Fprintf(p.out, "\r%*s\r", p.shown, "")
		p.shown = 0
	}
}

// Reader counts the bytes read from r.
func (p *Progress) Reader(r io.Reader) io.Reader {
	if p == nil {
		return r
	}
	return countedReader{r, p}
}

type countedReader struct {
	io.Reader
	progress *Progress
}

// Read implements io.Reader.
func (r countedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.progress.Add(n)
	return n, err
}
