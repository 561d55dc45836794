//go:build unix

package daemon

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A reader of the log that stalls delays one line, not all calls. Lines are lost until it reads on; then the log has how many, and
// all others whole.
func TestNobodyWaitsForTheReaderOfTheLog(t *testing.T) {
	for name, length := range map[string]int{"short lines": 100, "lines of several pieces": 3 * logPiece} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			fatal.If(t, err)
			defer func() { _ = w.Close() }()
			told := make(chan int, 1)
			log := &lossy{file: w, patience: 100 * time.Millisecond, tell: func(lines int) { told <- lines }}
			line := func(number int) string { return fmt.Sprintf("%8d%s.", number, strings.Repeat("x", length)) }
			const all = 3000 // more than a pipe takes
			wrote := make(chan error)
			write := func(number int) error {
				_, err := log.Write([]byte(line(number) + "\n"))
				return err
			}
			for i := range all {
				go func() { wrote <- write(i) }()
				select {
				case err := <-wrote:
					fatal.If(t, err)
				case <-time.After(time.Minute):
					_ = r.Close()
					t.Fatalf("line %d waits", i)
				}
			}
			read := make(chan []string)
			go func() {
				var lines []string
				for in := bufio.NewScanner(r); in.Scan() && in.Text() != line(all+1); {
					lines = append(lines, in.Text())
				}
				read <- lines
			}()
			for log.lost > 0 { // until the reader has made room
				fatal.If(t, write(all))
			}
			fatal.If(t, write(all+1))
			lines, lost := <-read, <-told
			whole := 0
			for _, got := range lines {
				if len(got) == len(line(0)) && strings.HasSuffix(got, "x.") {
					whole++
				}
			}
			if len(lines)-whole > 1 || lost < all-whole || whole < 1 {
				t.Errorf("of %d lines %d are whole, and it told of %d", len(lines), whole, lost)
			}
		})
	}
}
