// Package files reads files such as tokens, certificates and policies, and reloads them when
// they change.
//
//	tokens, err := files.Open(parse, files.Options{OnChange: log}, "tokens.yaml")
//	…
//	go tokens.Run(ctx)
//	…
//	tokens.Load() // the last valid content
//
// A goroutine checks a [Watched] every few seconds; a [Current] is checked whenever it is used.
// [Set.Settled] reads files consistently, and [TLS] builds the configuration of clients.
//
// It polls. Notifications (inotify) would be some milliseconds faster, but they concern
// directory entries, and files are replaced in many ways: Kubernetes swaps a symbolic link two
// levels up, editors rename or write in place, network file systems do not notify at all.
// Reading some kilobytes every few seconds costs next to nothing, misses no change, and works
// the same everywhere.
package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Read reads a file of at most that many bytes. The error is an [fs.PathError].
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

// Set is a set of files that belong together.
type Set struct {
	// Paths of the files. An empty one stands for no file, with nil content.
	Paths []string
	// Most limits the size of each file, in bytes.
	Most int64
}

// Contents are the contents of the files at one time.
type Contents struct {
	// Texts are in the order of the paths; nil if Err is set.
	Texts [][]byte
	// Err is why the files could not be read.
	Err error
	sum Sum
}

// Sum is a digest of contents, or of the error that replaces them. The zero value is the
// digest of nothing.
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
		// Sums have equal lengths, so that moving bytes between files changes the
		// digest.
		sum := sha256.Sum256(texts[i])
		digest.Write(sum[:])
	}
	return Contents{Texts: texts, sum: Sum(digest.Sum(nil))}
}

// readRegular refuses pipes: opening one waits for a writer, and it can be read only once.
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

// settleTries limits how often files that change meanwhile are read.
const settleTries = 4

// ErrUnsettled means that the files changed between all reads.
var ErrUnsettled = errors.New("the files keep changing while they are read")

// Settled reads the files until two reads in a row, settle apart, return the same. A single
// read may mix states: while the links of a Secret are swapped it may return the old
// certificate and the new key, and of a file that is written in place only the first half,
// which may be valid and mean something else. Contents equal to known need no second read. It
// reads files entirely, because neither times nor sizes reveal every change. It fails with
// the error of reading, ErrUnsettled or the context's error.
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

// Replace opens what is to replace a file: that stays as it is until end, without an error, puts the
// other in its place, with the mode that it had, else the given one less the umask. What is no file, such as a pipe, is
// written to.
func Replace(name string, mode fs.FileMode) (file *os.File, end func(error) error, err error) {
	info, unknown := os.Stat(name)
	if unknown == nil {
		if mode = info.Mode().Perm(); !info.Mode().IsRegular() {
			file, err = os.OpenFile(name, os.O_WRONLY, 0)
			return file, func(failed error) error { return errors.Join(failed, file.Close()) }, err
		}
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return nil, nil, err
		}
	}
	other := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text()+".tmp")
	if file, err = os.OpenFile(other, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode); err != nil {
		if unmade, ok := errors.AsType[*fs.PathError](err); ok { // nobody knows the other's name
			err = &fs.PathError{Op: unmade.Op, Path: name, Err: unmade.Err}
		}
		return nil, nil, err
	}
	end = func(failed error) error {
		if unknown == nil {
			failed = errors.Join(failed, file.Chmod(mode))
		}
		if failed = errors.Join(failed, file.Sync(), file.Close()); failed == nil {
			failed = os.Rename(file.Name(), name)
		}
		if failed != nil {
			_ = os.Remove(file.Name())
		}
		return failed
	}
	return file, end, nil
}
