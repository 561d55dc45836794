package webhook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"go.uber.org/zap"
)

// watched is a file that is read again when it changes, by identity, time and size. While it is
// being replaced, or is wrong, what was read last counts. It is safe for concurrent use.
type watched[T any] struct {
	// what it is, for errors, and its name.
	what, name string
	// most bounds it, bytes.
	most  int64
	parse func(text []byte) (T, error)
	// log takes what is wrong with it, once for as long as it is, and that it is read again.
	log *zap.Logger

	mu sync.Mutex
	// value is what was read last. Guarded by mu, as is all that follows.
	value T
	// info is of the file that value is of, nil: none was read yet.
	info os.FileInfo
	// problem is why it can't be read, empty: it can.
	problem string
}

// get returns what the file holds. The error is that of a file of which nothing was read yet.
func (f *watched[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.read()
	if f.info == nil {
		return f.value, err
	}
	f.note(err)
	return f.value, nil
}

func (f *watched[T]) read() error {
	info, err := os.Stat(f.name)
	if err == nil && f.info != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return nil
	}
	var text []byte
	if err == nil {
		text, err = readFile(f.name, f.most)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.what, err)
	}
	value, err := f.parse(text)
	if err != nil {
		return fmt.Errorf("%s %s: %w", f.what, f.name, err)
	}
	f.value, f.info = value, info
	return nil
}

// note logs why the file can't be read any more. The lock is held.
func (f *watched[T]) note(err error) {
	before := f.problem
	if f.problem = ""; err != nil {
		f.problem = err.Error()
	}
	switch {
	case f.problem == before:
	case err != nil:
		f.log.Error("file not read, what it held before counts", zap.String("file", f.name), zap.Error(err))
	default:
		f.log.Info("file read again", zap.String("file", f.name))
	}
}

// readFile reads a file of at most so many bytes.
func readFile(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("is larger than " + fmt.Sprint(most) + " bytes")}
	}
	return text, err
}
