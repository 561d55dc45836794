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
	total int64 // 0: unknown; guarded by mu

	begun time.Time

	mu    sync.Mutex
	done  int64     // guarded by mu
	last  time.Time // guarded by mu; when the line was written
	shown int       // guarded by mu; the length of the line, 0: no line
}

// progressInterval is how often the line is written at most.
const progressInterval = 200 * time.Millisecond

// leftAfter is when the time that is left can be told.
const leftAfter = 3 * time.Second

// NewProgress returns a progress display of total steps, 0 if their number is unknown; nil if
// w is not a terminal.
func NewProgress(w io.Writer, what string, total int64) *Progress {
	screen, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(screen.Fd())) {
		return nil
	}
	return &Progress{out: w, what: what, total: total, begun: time.Now(), last: time.Now()}
}

// Of says how many steps are done, and how many there are by what is known now.
func (p *Progress) Of(done, total int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.done, p.total = int64(done), int64(total)
	p.mu.Unlock()
	p.Add(0)
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
		if passed := time.Since(p.begun); passed >= leftAfter && p.done > 0 {
			left := time.Duration(float64(passed) / float64(p.done) * float64(p.total-p.done))
			line += fmt.Sprintf(", %s left", max(0, left).Round(time.Second))
		}
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
