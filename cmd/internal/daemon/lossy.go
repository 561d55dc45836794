package daemon

import (
	"os"
	"slices"
	"time"
)

const (
	// logPatience is how long a line waits for the reader of the log, unless lines before it waited in vain.
	logPatience = time.Second
	// logPiece is how many bytes, with a newline before them, a pipe with room takes without waiting.
	logPiece = 4095
)

// lossy writes lines to a file that a program may read. If the reader stalls, lines are lost: all calls would wait for it otherwise,
// and the end of the process too. It is not safe for concurrent use.
type lossy struct {
	file     *os.File
	patience time.Duration
	// tell is called with how many lines were lost, once the file takes lines again.
	tell func(lines int)
	lost int
	// torn reports whether the last line lacks its end.
	torn bool
}

// Write implements io.Writer. It returns no error for lines that are lost.
func (l *lossy) Write(line []byte) (int, error) {
	patience := l.patience
	if l.lost > 0 {
		patience = 0
	}
	written := 0
	for piece := range slices.Chunk(line, logPiece) {
		if !takes(l.file, patience) {
			l.lost++
			l.torn = l.torn || written > 0
			return len(line), nil
		}
		if written == 0 && l.torn {
			piece, l.torn = append([]byte{'\n'}, piece...), false
		}
		if _, err := l.file.Write(piece); err != nil {
			return written, err
		}
		written, patience = written+logPiece, l.patience
	}
	if l.lost > 0 {
		go l.tell(l.lost) // its line waits for this one
		l.lost = 0
	}
	return len(line), nil
}
