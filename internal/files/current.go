package files

import (
	"errors"
	"os"
	"strings"
	"sync"
)

// MaxSecretBytes bounds a file with credentials or certificates.
const MaxSecretBytes = 1 << 20

// Current is a file that is looked at when somebody needs what it says, and read again when it
// is not the one read last, by identity, time and size. While it is being replaced, or is
// wrong, what was read last counts. It is safe for concurrent use.
type Current[T any] struct {
	path  string
	most  int64
	parse func(text []byte) (T, error)
	note  func(error)

	mu sync.Mutex
	// value is what was read last, info of the file then; nil: none was read yet. problem is
	// why it can't be read now, empty: it can. Guarded by mu.
	value   T
	info    os.FileInfo
	problem string
}

// NewCurrent returns a file of so many bytes at most. It reads nothing yet. note takes what is
// wrong with a file that was right before, once for as long as it is, and nil when it is right
// again; nil: it is not called.
func NewCurrent[T any](path string, most int64, parse func(text []byte) (T, error), note func(error)) *Current[T] {
	if note == nil {
		note = func(error) {}
	}
	return &Current[T]{path: path, most: most, parse: parse, note: note}
}

// Get returns what the file says. The error is that of a file which was never right: an
// [fs.PathError], or parse's.
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
	// ErrLines is one of a file that no header can hold. What it holds is not quoted.
	ErrLines = errors.New("holds more than one line, or control characters")
)

// Secret is a credential in a file: the text without the space around it. It is safe for
// concurrent use.
type Secret struct{ current *Current[secret] }

// secret is a text, or why the file holds none that can be used.
type secret struct {
	text string
	err  error
}

// NewSecret returns a credential in a file. It reads nothing yet; note is as in NewCurrent.
func NewSecret(path string, note func(error)) *Secret {
	return &Secret{NewCurrent(path, MaxSecretBytes, func(text []byte) (secret, error) {
		s := strings.TrimSpace(string(text))
		switch {
		case s == "": // it may be being written
			return secret{}, wrong(path, ErrEmpty)
		case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return secret{err: wrong(path, ErrLines)}, nil
		}
		return secret{text: s}, nil
	}, note)}
}

// Get returns the text that the file holds, or held before it was emptied or taken away. Lines
// where one is wanted were meant, and are an error.
func (s *Secret) Get() (string, error) {
	last, err := s.current.Get()
	if err != nil {
		return "", err
	}
	return last.text, last.err
}
