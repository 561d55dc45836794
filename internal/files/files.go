// Package files reads what programs keep in files of their own, tokens, certificates and
// policies, and follows them when they change.
//
//	tokens, err := files.Open(parse, files.Options{OnChange: log}, "tokens.yaml")
//	…
//	go tokens.Run(ctx)
//	…
//	tokens.Load() // what the file last said that was right
//
// A [Watched] is looked at every few seconds by a goroutine, and a [Current] when somebody needs
// it; [Set.Settled] is what both a Watched and certificates of servers are read with, and
// [TLS] makes the configuration of clients.
//
// Nothing is asked of the kernel. Notifications (inotify) would be told some milliseconds
// earlier, but they are of directory entries, and files are replaced in many ways: Kubernetes
// swaps a symbolic link two levels up, editors rename or write in place, network file systems
// do not notify at all. Reading some kilobytes every few seconds costs nothing, misses none of
// these, and works the same everywhere.
package files

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Read reads a file of so many bytes at most. The error is an [fs.PathError].
func Read(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = wrong(path, fmt.Errorf("is larger than %d bytes", most))
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

func wrong(path string, err error) error {
	return &fs.PathError{Op: "read", Path: path, Err: err}
}

// Set are files that belong together.
type Set struct {
	// Paths are theirs. One that is empty stands for none, whose content is nil.
	Paths []string
	// Most bounds each file, bytes.
	Most int64
}

// Contents are what files held at one time.
type Contents struct {
	// Texts are in order of the paths; nil if Err is not.
	Texts [][]byte
	// Err is why the files could not be read.
	Err error
	sum Sum
}

// Sum is a digest of contents, or of the error in their place. The zero value is the digest of
// nothing.
type Sum [sha256.Size]byte

// Sum returns the digest.
func (c *Contents) Sum() Sum { return c.sum }

func unread(err error) Contents {
	return Contents{Err: err, sum: sha256.Sum256([]byte("unread: " + err.Error()))}
}

// Read reads the files once.
func (s Set) Read() Contents {
	texts := make([][]byte, len(s.Paths))
	digest := sha256.New()
	for i, path := range s.Paths {
		if path != "" {
			var err error
			if texts[i], err = readRegular(path, s.Most); err != nil {
				return unread(err)
			}
		}
		// Sums of equal length, so that no byte can move from one file to the next.
		sum := sha256.Sum256(texts[i])
		digest.Write(sum[:])
	}
	return Contents{Texts: texts, sum: Sum(digest.Sum(nil))}
}

// readRegular reads no pipe, which can be read once, and to open which waits for a writer.
func readRegular(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, wrong(path, errors.New("is not a regular file"))
	}
	return Read(path, most)
}

// settleTries bounds how often files are read that change meanwhile.
const settleTries = 4

// ErrUnsettled says that files changed each time that they were read.
var ErrUnsettled = errors.New("the files keep changing while they are read")

// Settled reads the files until two looks in a row, settle apart, have met the same: of a
// Secret whose links are swapped in between, the certificate may be an old one and the key a
// new one, and of a file that is written in place one sees the first half, which may be right
// and say something else. What is known is settled. Files are read whole, for neither times
// nor sizes show every change. An error is that of reading, ErrUnsettled or the context's.
func (s Set) Settled(ctx context.Context, settle time.Duration, known Sum) Contents {
	last := s.Read()
	for range settleTries {
		if last.sum == known {
			return last
		}
		select {
		case <-ctx.Done():
			return unread(ctx.Err())
		case <-time.After(settle):
		}
		next := s.Read()
		if next.sum == last.sum {
			return next
		}
		last = next
	}
	if last.Err == nil {
		return unread(ErrUnsettled)
	}
	return last
}
