package flight

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// file is a file with rotation by size. Each Write stays in one file and is readable after a
// crash: in a compressed file each Write is a complete gzip member. It implements io.Writer.
type file struct {
	name     string
	maxBytes int64
	maxFiles int
	open     *os.File
	size     int64
}

func openFile(name string, maxBytes int64, maxFiles int) (*file, error) {
	f := &file{name: name, maxBytes: maxBytes, maxFiles: maxFiles}
	return f, f.reopen()
}

func (f *file) reopen() error {
	opened, err := os.OpenFile(f.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err != nil {
		_ = opened.Close()
		return err
	}
	f.open, f.size = opened, info.Size()
	return nil
}

// Write implements io.Writer.
func (f *file) Write(line []byte) (int, error) {
	data, err := f.encoded(line)
	if err != nil {
		return 0, err
	}
	if err := f.look(); err != nil {
		return 0, err
	}
	if f.size > 0 && f.size+int64(len(data)) > f.maxBytes {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	if _, err := f.open.Write(data); err != nil {
		// A full disk may have taken a part, with which what comes later would be unreadable.
		return 0, errors.Join(err, f.open.Truncate(f.size))
	}
	f.size += int64(len(data))
	return len(line), nil
}

// look makes sure that the open file is the one of the name: somebody may have taken it away to replay it, and what is written
// to it then is seen by nobody. It also notes the size, which somebody may have cut.
func (f *file) look() error {
	if f.open == nil { // an earlier rotation failed half way
		return f.reopen()
	}
	own, err := f.open.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(f.name)
	if err == nil && !os.SameFile(own, named) || errors.Is(err, fs.ErrNotExist) {
		return errors.Join(f.close(), f.reopen())
	}
	f.size = own.Size()
	return nil
}

func (f *file) encoded(line []byte) ([]byte, error) {
	if !strings.HasSuffix(f.name, ".gz") {
		return line, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(line); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// rotate renames the file and creates a new one.
func (f *file) rotate() error {
	if err := f.close(); err != nil {
		return err
	}
	if f.maxFiles == 1 {
		if err := os.Remove(f.name); err != nil {
			return err
		}
		return f.reopen()
	}
	for i := f.maxFiles - 1; i >= 1; i-- {
		if err := os.Rename(f.numbered(i-1), f.numbered(i)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return f.reopen()
}

// numbered is the file's name after n rotations.
func (f *file) numbered(n int) string {
	if n == 0 {
		return f.name
	}
	return fmt.Sprintf("%s.%d", f.name, n)
}

func (f *file) close() error {
	if f.open == nil {
		return nil
	}
	err := f.open.Close()
	f.open = nil
	return err
}
