package files

import (
	"errors"
	"os"
	"strings"
	"sync"
)

// MaxSecretBytes limits a file with credentials or certificates.
const MaxSecretBytes = 1 << 20

// Current is a file that is checked whenever its content is needed, and read again when its
// identity, time or size has changed. While the file is being replaced, or is invalid, the
// last valid content counts. It is safe for concurrent use.
type Current[T any] struct {
	path  string
	most  int64
	parse func(text []byte) (T, error)
	note  func(error)

	mu sync.Mutex
	// value is the last content, info the file's at that time; nil: it was not read yet.
	// problem is why it can't be read now; empty: it can. Guarded by mu.
	value   T
	info    os.FileInfo
	problem string
}

// NewCurrent returns a file of at most that many bytes, without reading it. note receives the
// error when a valid file becomes invalid, once until it changes, and nil when the file is
// valid again; nil: not called.
func NewCurrent[T any](path string, most int64, parse func(text []byte) (T, error), note func(error)) *Current[T] {
	if note == nil {
		note = func(error) {}
	}
	return &Current[T]{path: path, most: most, parse: parse, note: note}
}

// Get returns the file's content. It fails only for a file that was never valid: with
// an [fs.PathError], or parse's error.
func (f *Current[T]) Get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.read()
	if f.info == nil {
		return f.value, err
	}
	before := f.problem
	if f.problem = ""; err != nil {
		f.problem = err.Error()
	}
	if f.problem != before {
		f.note(err)
	}
	return f.value, nil
}

func (f *Current[T]) read() error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	if f.info != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return nil
	}
	text, err := Read(f.path, f.most)
	if err != nil {
		return err
	}
	value, err := f.parse(text)
	if err != nil {
		return err
	}
	f.value, f.info = value, info
	return nil
}

// Errors of a Secret, wrapped in an [fs.PathError].
var (
	ErrEmpty = errors.New("is empty")
	// ErrLines is the error for a file whose content does not fit a header. The content
	// is not quoted.
	ErrLines = errors.New("has more than one line, or control characters")
)

// Secret is a credential in a file: the text without surrounding space. It is safe for
// concurrent use.
type Secret struct{ current *Current[secret] }

// secret is a text, or why the file has no usable one.
type secret struct {
	text string
	err  error
}

// NewSecret returns a credential in a file, without reading it; note is as in NewCurrent.
func NewSecret(path string, note func(error)) *Secret {
	return &Secret{NewCurrent(path, MaxSecretBytes, func(text []byte) (secret, error) {
		s := strings.TrimSpace(string(text))
		switch {
		case s == "": // it may be in the middle of a write
			return secret{}, wrong(path, ErrEmpty)
		case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return secret{err: wrong(path, ErrLines)}, nil
		}
		return secret{text: s}, nil
	}, note)}
}

// Get returns the file's text, or its last text if the file was emptied or removed. A file
// with several lines is an error, not a moment of a write.
func (s *Secret) Get() (string, error) {
	last, err := s.current.Get()
	if err != nil {
		return "", err
	}
	return last.text, last.err
}
